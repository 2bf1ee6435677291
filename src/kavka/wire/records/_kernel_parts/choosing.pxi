# Some records of a body: those that a mask keeps, and their keys.

def keep(
    body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_timestamp, mask
):
    """Return the records whose byte in `mask` is not 0, how many, and their largest timestamp."""
    cdef View view = View(body), choice = View(mask)
    if choice.size != count:
        raise ValueError(f"a mask of {choice.size} for {count} records")
    view.cut(start, &end)
    cdef Py_ssize_t position = start
    check_count(position, end, count)
    kept = PyByteArray_FromStringAndSize(NULL, end - position)
    cdef uint8_t* out = <uint8_t*>PyByteArray_AS_STRING(kept)
    cdef Py_ssize_t used = 0
    cdef int64_t index, chosen = 0, largest = -1, timestamp
    cdef int fault = SOUND
    cdef Record r
    with nogil:
        for index in range(count):
            if position == end:
                fault = MISSING
                break
            fault = parse(view.p, position, end, &r)
            if fault == SOUND and r.header_count:
                fault = skip_headers(view.p, &r)
            if fault != SOUND:
                break
            if choice.p[index]:
                memcpy(out + used, view.p + position, r.end - position)
                used += r.end - position
                chosen += 1
                timestamp = add(base_timestamp, r.delta)
                if timestamp > largest:
                    largest = timestamp
            position = r.end
    if fault != SOUND:
        fail(fault, position)
    if position < end:
        fail(EXTRA, position)
    PyByteArray_Resize(kept, used)
    return kept, chosen, largest


def keys(body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_offset):
    """Return each record's key and offset, and a byte that is 1 where the value is null."""
    cdef View view = View(body)
    view.cut(start, &end)
    cdef Py_ssize_t position = start
    check_count(position, end, count)
    cdef list found = [], offsets = []
    tombstones = PyByteArray_FromStringAndSize(NULL, count)
    cdef uint8_t* flags = <uint8_t*>PyByteArray_AS_STRING(tombstones)
    cdef int64_t index
    cdef int fault
    cdef Record r
    for index in range(count):
        if position == end:
            fail(MISSING, position)
        fault = parse(view.p, position, end, &r)
        if fault == SOUND and r.header_count:
            fault = skip_headers(view.p, &r)
        if fault != SOUND:
            fail(fault, position)
        found.append(text(view.p + r.key_at, r.key_length))
        offsets.append(add(base_offset, r.offset))
        flags[index] = r.value_length < 0
        position = r.end
    if position < end:
        fail(EXTRA, position)
    return found, offsets, tombstones
