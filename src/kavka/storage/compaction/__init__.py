"""Log compaction: the last value of each key stays, at its offset, in its order (KIP-58, KIP-354, KIP-534, KIP-98).

    0        first_dirty_offset      first_uncleanable_offset      last stable offset      end
    |--- clean ---|------- dirty -------|--- too young, or active, or not decided yet ------|
                  | read into a map: key -> latest offset
    |- rewritten, segment group by segment group, against the map |

`cleanable_log` says which log is next and what of it, `cleaned_transactions` and `batch_filter` what becomes of each
batch. `cleaning_pass` does one pass over one log; `log.cleaned_segment` writes its files, and
`log.segment_replacement` puts them in place.
"""
