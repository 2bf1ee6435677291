# Records to bytes. Sizes are added up first, so that each output is allocated once.

cdef inline int varint_size(int64_t number) noexcept nogil:
    cdef uint64_t value = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef int size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* p, int64_t number) noexcept nogil:
    cdef uint64_t value = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    while value > 0x7F:
        p[0] = <uint8_t>(value & 0x7F | 0x80)
        p += 1
        value >>= 7
    p[0] = <uint8_t>value
    return p + 1


cdef inline Py_ssize_t bytes_size(int64_t length) noexcept nogil:
    return 1 if length < 0 else varint_size(length) + length


cdef inline uint8_t* put_bytes(uint8_t* p, Bytes content, int64_t length) noexcept nogil:
    p = put_varint(p, length)
    if length > 0:
        memcpy(p, content, length)
        p += length
    return p


cdef list flat(column, Py_ssize_t count):
    """Return a column as a list of bytes and None."""
    if column is None:
        return None
    if len(column) != count:
        raise ValueError(f"a column of {len(column)} for {count} records")
    cdef list items = <list>column if type(column) is list else list(column)
    cdef Py_ssize_t index
    for index in range(count):
        item = items[index]
        if item is not None and type(item) is not bytes:
            return [
                one if one is None or type(one) is bytes else bytes(memoryview(one)) for one in items
            ]
    # A copy, because sizes are measured before the bytes are written.
    return items[:]


cdef list flat_headers(headers, Py_ssize_t count):
    """Return the headers of each record as a flat list: key, value, key, value…; None where there is none.

    Those of `pack_headers` stay as they are.
    """
    if headers is None:
        return None
    if len(headers) != count:
        raise ValueError(f"a column of {len(headers)} for {count} records")
    cdef list lists = [], found
    for entries in headers:
        if not entries:
            lists.append(None)
            continue
        if type(entries) is bytes:
            lists.append(entries)
            continue
        found = []
        for name, content in entries:
            if name is None:
                raise ValueError("a header without a key")
            found.append(name.encode() if isinstance(name, str) else bytes(memoryview(name)))
            if content is None or type(content) is bytes:
                found.append(content)
            else:
                found.append(bytes(memoryview(content)))
        lists.append(found)
    return lists


cdef inline int64_t length_of(list column, Py_ssize_t index):
    if column is None or column[index] is None:
        return -1
    return PyBytes_GET_SIZE(column[index])


cdef inline Bytes bytes_of(list column, Py_ssize_t index):
    if column is None or column[index] is None:
        return NULL
    return <Bytes>PyBytes_AS_STRING(column[index])


def encode(
    int64_t count, timestamps, keys, values, headers, int64_t base_timestamp, Py_ssize_t reserve,
    take=None,
):
    """Return records as bytes after `reserve` bytes of zeros; many may go into what `take` returns."""
    cdef list key_list = flat(keys, count), value_list = flat(values, count)
    cdef list header_lists = flat_headers(headers, count), entries
    cdef object listed
    if timestamps is not None and len(timestamps) != count:
        raise ValueError(f"a column of {len(timestamps)} for {count} records")
    scratch = PyByteArray_FromStringAndSize(NULL, 16 * count)
    cdef int64_t* deltas = <int64_t*>PyByteArray_AS_STRING(scratch)
    cdef int64_t* sizes = deltas + count
    cdef int64_t index, size, total = reserve, entry, stamp
    times = timestamps if timestamps is None else list(timestamps)
    for index in range(count):
        if times is None:
            deltas[index] = 0
        else:
            stamp = times[index]
            deltas[index] = <int64_t>(<uint64_t>stamp - <uint64_t>base_timestamp)
        size = 1 + varint_size(deltas[index]) + varint_size(index)
        size += bytes_size(length_of(key_list, index)) + bytes_size(length_of(value_list, index))
        listed = None if header_lists is None else header_lists[index]
        if listed is None:
            size += 1
        elif type(listed) is bytes:
            size += PyBytes_GET_SIZE(listed)
        else:
            entries = <list>listed
            size += varint_size(len(entries) // 2)
            for entry in range(len(entries)):
                size += bytes_size(length_of(entries, entry))
        if size > 0x7FFFFFFF:
            raise OverflowError("a record of more than 2 GiB")
        sizes[index] = size
        total += varint_size(size) + size
    cdef Taken taken
    cdef uint8_t* p
    if take is None or total < SMALLEST_TAKEN:
        output = PyByteArray_FromStringAndSize(NULL, total)
        p = <uint8_t*>PyByteArray_AS_STRING(output)
    else:
        taken = Taken(take(total), total)
        output = memoryview(taken.memory)[:total]
        p = <uint8_t*>taken.buffer.buf
    memset(p, 0, reserve)
    p += reserve
    for index in range(count):
        p = put_varint(p, sizes[index])
        p[0] = 0
        p = put_varint(put_varint(p + 1, deltas[index]), index)
        p = put_bytes(p, bytes_of(key_list, index), length_of(key_list, index))
        p = put_bytes(p, bytes_of(value_list, index), length_of(value_list, index))
        listed = None if header_lists is None else header_lists[index]
        if listed is None:
            p[0] = 0
            p += 1
        elif type(listed) is bytes:
            memcpy(p, PyBytes_AS_STRING(listed), PyBytes_GET_SIZE(listed))
            p += PyBytes_GET_SIZE(listed)
        else:
            entries = <list>listed
            p = put_varint(p, len(entries) // 2)
            for entry in range(len(entries)):
                p = put_bytes(p, bytes_of(entries, entry), length_of(entries, entry))
    return output


def take_values(
    pairs, Py_ssize_t start, list values, list timestamps, timestamp,
    int64_t free_bytes, int64_t overhead, int64_t largest
):
    """Append values of pairs without a key while they fit; return the first index not taken, and the bytes used."""
    if type(pairs) is not list and type(pairs) is not tuple:
        raise TypeError("pairs come as a list or tuple")
    cdef Py_ssize_t index = start, end = len(pairs)
    cdef int64_t size, left = free_bytes
    while index < end:
        pair = pairs[index]
        if type(pair) is not tuple or len(<tuple>pair) != 2 or (<tuple>pair)[0] is not None:
            break
        value = (<tuple>pair)[1]
        if type(value) is not bytes:
            break
        size = PyBytes_GET_SIZE(value)
        if size >= largest or size + overhead > left:
            break
        left -= size + overhead
        values.append(value)
        timestamps.append(timestamp)
        index += 1
    return index, free_bytes - left
