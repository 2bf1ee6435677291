"""Log compaction: the last value of each key stays, at its offset, in its order (KIP-58, KIP-354, KIP-534, KIP-98).

    0        first_dirty_offset      first_uncleanable_offset      last stable offset      end
    |--- clean ---|------- dirty -------|--- too young, or active, or not decided yet ------|
                  | read into a map: key -> latest offset
    |- rewritten, segment group by segment group, against the map |

`choosing` says which log is next and what of it, `transactions` and `filtering` what becomes of each batch; all are
pure. `cleaning` does one pass over one log, `cleaned_segment` writes its files, `log_compacting` puts them in place.
"""
