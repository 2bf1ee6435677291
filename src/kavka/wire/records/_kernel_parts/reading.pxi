# Records as objects.

cdef object text(Bytes p, int64_t length):
    return None if length < 0 else PyBytes_FromStringAndSize(<const char*>p, length)


cdef tuple header_tuple(Bytes p, Record* r, Py_ssize_t position):
    """Return the headers as ((str, bytes or None), …)."""
    cdef Py_ssize_t at = r.headers_at, key_at, value_at
    cdef int64_t key_length, value_length, index
    cdef list found = []
    for index in range(r.header_count):
        if not next_header(p, &at, r.end, &key_at, &key_length, &value_at, &value_length):
            fail(FIELDS, position)
        found.append((
            PyUnicode_DecodeUTF8(<char*>(p + key_at), key_length, "replace"),
            text(p + value_at, value_length),
        ))
    if at != r.end:
        fail(FIELDS, position)
    return tuple(found)


cdef bint holds_no_objects(type record_type, tuple prefix):
    """Tell whether records can be in no circle of references: the garbage collector need not look at them."""
    if (<object>record_type).__dictoffset__ != 0:
        return False
    for item in prefix:
        if type(item) is not str and type(item) is not int:
            return False
    return True


def records(
    body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_offset, int64_t base_timestamp,
    int timestamp_type, int64_t append_time, type record_type, tuple prefix=(),
):
    """Return the records as `record_type`s, a NamedTuple of the fields of `prefix` and six more."""
    if not issubclass(record_type, tuple) or (<object>record_type).__itemsize__ == 0:
        raise TypeError("records are made as tuples")
    cdef View view = View(body)
    view.cut(start, &end)
    cdef Bytes p = view.p
    cdef Py_ssize_t position = start, index
    check_count(position, end, count)
    cdef list made = []
    cdef object kind = timestamp_type, stamp = append_time, item
    cdef tuple none = ()
    cdef int fault
    cdef Record r
    cdef PyObject* one
    cdef PyTypeObject* factory = <PyTypeObject*>record_type
    cdef Py_ssize_t lead = len(prefix), before
    cdef bint is_flat = holds_no_objects(record_type, prefix)
    for index in range(count):
        if position == end:
            fail(MISSING, position)
        fault = parse(p, position, end, &r)
        if fault != SOUND:
            fail(fault, position)
        headers = header_tuple(p, &r, position) if r.header_count else none
        key = text(p + r.key_at, r.key_length)
        value = text(p + r.value_at, r.value_length)
        offset = add(base_offset, r.offset)
        timestamp = stamp if timestamp_type else add(base_timestamp, r.delta)
        one = factory.tp_alloc(factory, lead + 6)
        for before in range(lead):
            give(one, before, prefix[before])
        give(one, lead, offset)
        give(one, lead + 1, timestamp)
        give(one, lead + 2, kind)
        give(one, lead + 3, key)
        give(one, lead + 4, value)
        give(one, lead + 5, headers)
        if is_flat:
            PyObject_GC_UnTrack(one)
        item = <object>one
        # tp_alloc gave one reference and `item` took another.
        Py_DECREF_one(one)
        made.append(item)
        position = r.end
    if position < end:
        fail(EXTRA, position)
    return made


def first_since(
    body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_offset, int64_t base_timestamp,
    int64_t timestamp, int64_t from_offset,
):
    """Return timestamp and offset of the first record that is not older, from an offset on."""
    cdef View view = View(body)
    view.cut(start, &end)
    cdef Bytes p = view.p
    cdef Py_ssize_t position = start
    check_count(position, end, count)
    cdef int64_t index, found = 0, offset = 0
    cdef int fault = SOUND
    cdef bint is_found = False
    cdef Record r
    with nogil:
        for index in range(count):
            fault = MISSING if position == end else parse(p, position, end, &r)
            if fault != SOUND:
                break
            found = add(base_timestamp, r.delta)
            offset = add(base_offset, r.offset)
            if found >= timestamp and offset >= from_offset:
                is_found = True
                break
            position = r.end
    if fault != SOUND:
        fail(fault, position)
    return (found, offset) if is_found else None
