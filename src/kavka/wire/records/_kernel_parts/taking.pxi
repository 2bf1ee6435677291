# Records into the lists of a producer's batches, one call a record.

cdef tuple header_at(headers, Py_ssize_t index):
    """Return a header that is a tuple of text and bytes or None; None for anything else."""
    entry = (<list>headers)[index] if type(headers) is list else (<tuple>headers)[index]
    if type(entry) is not tuple or len(<tuple>entry) != 2 or not isinstance((<tuple>entry)[0], str):
        return None
    content = (<tuple>entry)[1]
    return None if content is not None and type(content) is not bytes else <tuple>entry


cdef bytes packed(headers):
    """Return headers as they stand in a record, None where they are no list or tuple of what `header_at` returns."""
    if type(headers) is not list and type(headers) is not tuple:
        return None
    cdef Py_ssize_t count = len(headers), index, length, size = varint_size(count)
    cdef tuple entry
    for index in range(count):
        entry = header_at(headers, index)
        if entry is None:
            return None
        PyUnicode_AsUTF8AndSize(entry[0], &length)
        size += bytes_size(length) + (1 if entry[1] is None else bytes_size(PyBytes_GET_SIZE(entry[1])))
    # The text of a name is kept with the name, so that nothing can fail or change between measuring and writing.
    output = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* p = put_varint(<uint8_t*>PyBytes_AS_STRING(output), count)
    cdef const char* name
    for index in range(count):
        entry = header_at(headers, index)
        name = PyUnicode_AsUTF8AndSize(entry[0], &length)
        p = put_bytes(p, <Bytes>name, length)
        if entry[1] is None:
            p = put_varint(p, -1)
        else:
            p = put_bytes(p, <Bytes>PyBytes_AS_STRING(entry[1]), PyBytes_GET_SIZE(entry[1]))
    return output


def pack_headers(headers):
    """Return the headers of a record as `encode` takes them."""
    found = packed(headers)
    if found is None:
        raise TypeError("headers are a list or tuple of (str, bytes or None)")
    return found


def take_keyed(
    dict batches not None, int64_t partitions, bytes value not None, bytes key not None, timestamp, headers,
    int64_t overhead, int64_t largest
):
    """Append a record to the open batch of its key's partition; return whether it did."""
    if partitions < 1:
        raise ValueError("a topic has at least one partition")
    partition = (murmur2_of(<Bytes>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) & 0x7FFFFFFF) % partitions
    batch = batches.get(partition)
    if batch is None:
        return False
    cdef int64_t size = PyBytes_GET_SIZE(value) + PyBytes_GET_SIZE(key) + overhead
    cdef bytes found = None
    if headers is not None:
        found = packed(headers)
        if found is None:
            return False
        size += PyBytes_GET_SIZE(found)
    cdef int64_t left = <int64_t>batch.free_bytes - size
    if left < 0 or size >= largest:
        return False
    cdef list keys = batch.keys, values = batch.values, timestamps = batch.timestamps
    if len(keys) != len(values):
        return False
    if found is not None:
        (<dict>batch.headers)[len(values)] = found
    batch.free_bytes = left
    values.append(value)
    keys.append(key)
    timestamps.append(timestamp)
    return True
