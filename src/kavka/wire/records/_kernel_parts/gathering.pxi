# Columns of several batches as one.

def gather(parts):
    """Return rows of several columns as one column of bytes, or of list offsets where a part has no bytes."""
    cdef list sources = [Source(*part[:5]) for part in parts]
    cdef int64_t rows = 0, room = 0, listed = 0, index, count, begin, length
    cdef Source one
    cdef int sound = 1
    for one, part in zip(sources, parts):
        count = part[5]
        one.reach(count)
        rows += count
        with nogil:
            for index in range(count):
                if not row(&one.c, index, &begin, &length):
                    sound = 0
                    break
                if length > 0 and one.c.data != NULL:
                    room += length
                elif length > 0x7FFFFFFF - listed:
                    listed = -1
                    break
                elif length > 0:
                    listed += length
        if listed < 0:
            raise OverflowError("more than 2^31 - 1 headers for one column")
        if not sound:
            raise ValueError("offsets of a column that do not fit its bytes")
    if room > 0x7FFFFFFF:
        raise OverflowError("more than 2 GiB of bytes for one column")
    cdef Growing all = Growing(rows, room)
    for one, part in zip(sources, parts):
        count = part[5]
        with nogil:
            sound = gather_rows(&one.c, count, &all.c, room)
        if not sound:
            raise ValueError("the columns changed while they were gathered")
    return all.buffers()


cdef int gather_rows(Input* c, int64_t count, Column* all, int64_t room) noexcept nogil:
    cdef int64_t index, begin, length
    for index in range(count):
        if not row(c, index, &begin, &length):
            return 0
        if c.data != NULL and length > room - all.used:
            return 0
        if c.data == NULL and length > 0:
            if length > 0x7FFFFFFF - all.used:
                return 0
            all.used += <int32_t>length
            length = 0
        put(all, c.data + begin if length > 0 else NULL, length)
    return 1
