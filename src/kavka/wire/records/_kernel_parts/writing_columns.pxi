# Columns to bytes: a first pass over the rows measures, a second one writes.

cdef struct Input:
    int present
    Bytes offsets
    Bytes data
    Bytes valid
    int64_t size
    int64_t rows
    int64_t shift
    int width


cdef class Source:
    """The buffers behind an Input: a column of bytes, or the lists of a column of headers (without bytes)."""

    cdef View offsets, data, valid
    cdef Input c

    def __cinit__(self, offsets, data, valid, int64_t shift, int width):
        if width != 4 and width != 8 or shift < 0:
            raise ValueError("offsets have 4 or 8 bytes, and an index is not negative")
        self.offsets = View(offsets)
        self.c.present = 1
        self.c.width = width
        self.c.shift = shift
        self.c.offsets = self.offsets.p
        self.c.rows = self.offsets.size // width - 1
        self.c.data = NULL
        self.c.size = 0x7FFFFFFFFFFFFFFF
        self.c.valid = NULL
        if data is not None:
            self.data = View(data)
            self.c.data = self.data.p
            self.c.size = self.data.size
        if valid is not None:
            self.valid = View(valid)
            self.c.valid = self.valid.p
            if self.c.rows > self.valid.size * 8:
                self.c.rows = self.valid.size * 8

    cdef int reach(self, int64_t count) except -1:
        """Refuse a column of fewer rows."""
        if self.c.shift > self.c.rows - count:
            raise ValueError("a buffer is shorter than its column")
        return 0


cdef Source source(column):
    return None if column is None else Source(*column)


cdef inline int64_t offset_at(Input* c, int64_t index) noexcept nogil:
    cdef int32_t narrow
    cdef int64_t wide
    if c.width == 4:
        memcpy(&narrow, c.offsets + 4 * index, 4)
        return narrow
    memcpy(&wide, c.offsets + 8 * index, 8)
    return wide


cdef inline int row(Input* c, int64_t index, int64_t* begin, int64_t* length) noexcept nogil:
    """Find a row's bytes; its length is -1 for null. Return 0 when the buffers do not hold it."""
    length[0] = -1
    begin[0] = 0
    if not c.present:
        return 1
    if index < 0 or index >= c.rows - c.shift:
        return 0
    index += c.shift
    if c.valid != NULL and not c.valid[index >> 3] >> (index & 7) & 1:
        return 1
    cdef int64_t first = offset_at(c, index), end = offset_at(c, index + 1)
    if first < 0 or end < first or end > c.size:
        return 0
    begin[0] = first
    length[0] = end - first
    return 1


cdef struct Table:
    Bytes times
    Input key
    Input value
    Input lists
    Input header_key
    Input header_value
    int64_t base_timestamp
    int keyless


cdef inline int64_t delta_at(Table* t, int64_t index) noexcept nogil:
    cdef int64_t timestamp
    if t.times == NULL:
        return 0
    memcpy(&timestamp, t.times + 8 * index, 8)
    return <int64_t>(<uint64_t>timestamp - <uint64_t>t.base_timestamp)


cdef int64_t measure(Table* t, int64_t index) noexcept nogil:
    """Return the size of a record without its length, or -1 when the buffers do not hold it."""
    cdef int64_t begin, length, first, many, entry, size
    size = 1 + varint_size(delta_at(t, index)) + varint_size(index)
    if not row(&t.key, index, &begin, &length):
        return -1
    size += bytes_size(length)
    if not row(&t.value, index, &begin, &length):
        return -1
    size += bytes_size(length)
    if not row(&t.lists, index, &first, &many):
        return -1
    if many <= 0:
        return size + 1
    size += varint_size(many)
    for entry in range(first, first + many):
        if not row(&t.header_key, entry, &begin, &length):
            return -1
        if length < 0:
            t.keyless = 1
            return -1
        size += bytes_size(length)
        if not row(&t.header_value, entry, &begin, &length):
            return -1
        size += bytes_size(length)
    return size


cdef uint8_t* put_row(Table* t, Input* c, int64_t index, uint8_t* p, uint8_t* stop) noexcept nogil:
    """Write a row, or return NULL when it does not fit: the buffers changed since they were measured."""
    cdef int64_t begin, length
    if p == NULL or not row(c, index, &begin, &length) or bytes_size(length) > stop - p:
        return NULL
    return put_bytes(p, c.data + begin if length > 0 else NULL, length)


cdef uint8_t* put_record(Table* t, int64_t index, int64_t size, uint8_t* p, uint8_t* stop) noexcept nogil:
    cdef int64_t first, many, entry, delta = delta_at(t, index)
    if varint_size(size) + 1 + varint_size(delta) + varint_size(index) > stop - p:
        return NULL
    p = put_varint(p, size)
    p[0] = 0
    p = put_varint(put_varint(p + 1, delta), index)
    p = put_row(t, &t.key, index, p, stop)
    p = put_row(t, &t.value, index, p, stop)
    if p == NULL or not row(&t.lists, index, &first, &many):
        return NULL
    if many < 0:
        many = 0
    if varint_size(many) > stop - p:
        return NULL
    p = put_varint(p, many)
    for entry in range(first, first + many):
        p = put_row(t, &t.header_key, entry, p, stop)
        p = put_row(t, &t.header_value, entry, p, stop)
        if p == NULL:
            return NULL
    return p


def encode_columns(
    int64_t count, timestamps, key, value, headers, int64_t base_timestamp, Py_ssize_t reserve
):
    """Return records from Arrow's buffers after `reserve` bytes of zeros."""
    cdef Source keys = source(key), values = source(value), lists, names, contents
    cdef View times
    cdef Table t
    memset(&t, 0, sizeof(Table))
    t.base_timestamp = base_timestamp
    if timestamps is not None:
        times = View(timestamps[0])
        if timestamps[1] < 0 or timestamps[1] > times.size // 8 - count:
            raise ValueError("a buffer is shorter than its column")
        t.times = times.p + 8 * <int64_t>timestamps[1]
    if keys is not None:
        keys.reach(count)
        t.key = keys.c
    if values is not None:
        values.reach(count)
        t.value = values.c
    if headers is not None:
        lists = Source(headers[0], None, headers[1], headers[2], headers[3])
        lists.reach(count)
        names, contents = source(headers[4]), source(headers[5])
        t.lists, t.header_key, t.header_value = lists.c, names.c, contents.c
    cdef int64_t index, size = 0, total = reserve
    scratch = PyByteArray_FromStringAndSize(NULL, 8 * count)
    cdef int64_t* sizes = <int64_t*>PyByteArray_AS_STRING(scratch)
    with nogil:
        for index in range(count):
            size = measure(&t, index)
            if size < 0 or size > 0x7FFFFFFF:
                break
            sizes[index] = size
            total += varint_size(size) + size
    if size > 0x7FFFFFFF:
        raise OverflowError("a record of more than 2 GiB")
    if t.keyless:
        raise ValueError("a header without a key")
    if size < 0:
        raise ValueError("offsets of a column that do not fit its bytes")
    output = PyByteArray_FromStringAndSize(NULL, total)
    cdef uint8_t* p = <uint8_t*>PyByteArray_AS_STRING(output)
    cdef uint8_t* stop = p + total
    with nogil:
        memset(p, 0, reserve)
        p += reserve
        for index in range(count):
            p = put_record(&t, index, sizes[index], p, stop)
            if p == NULL:
                break
    if p != stop:
        raise ValueError("the columns changed while they were encoded")
    return output
