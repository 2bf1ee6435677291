# Batches as columns. Every output is allocated at the size that the bodies could need at most, and cut at the end.

cdef struct Column:
    int32_t* offsets
    uint8_t* data
    uint8_t* valid
    Py_ssize_t rows
    int32_t used
    Py_ssize_t nulls


cdef inline void put(Column* c, Bytes p, int64_t length) noexcept nogil:
    """Append a row; the caller has seen to the room."""
    if length < 0:
        c.nulls += 1
    else:
        c.valid[c.rows >> 3] |= 1 << (c.rows & 7)
        if length > 0:
            memcpy(c.data + c.used, p, length)
            c.used += <int32_t>length
    c.rows += 1
    c.offsets[c.rows] = c.used


cdef class Growing:
    """The bytearrays behind a Column; its data may be in memory that was taken elsewhere."""

    cdef object offsets, data, valid
    cdef Py_buffer taken
    cdef bint is_taken
    cdef Column c

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t room, take=None):
        self.is_taken = False
        self.offsets = PyByteArray_FromStringAndSize(NULL, 4 * (rows + 1))
        self.valid = PyByteArray_FromStringAndSize(NULL, (rows + 7) // 8)
        self.c.offsets = <int32_t*>PyByteArray_AS_STRING(self.offsets)
        if take is None or room < SMALLEST_TAKEN:
            self.data = PyByteArray_FromStringAndSize(NULL, room)
            self.c.data = <uint8_t*>PyByteArray_AS_STRING(self.data)
        else:
            self.data = take(room)
            PyObject_GetBuffer(self.data, &self.taken, PyBUF_WRITABLE)
            self.is_taken = True
            if self.taken.len < room:
                raise ValueError("less memory than was asked for")
            self.c.data = <uint8_t*>self.taken.buf
        self.c.valid = <uint8_t*>PyByteArray_AS_STRING(self.valid)
        memset(self.c.valid, 0, (rows + 7) // 8)
        self.c.offsets[0] = 0
        self.c.rows = 0
        self.c.used = 0
        self.c.nulls = 0

    def __dealloc__(self):
        if self.is_taken:
            PyBuffer_Release(&self.taken)

    cdef int cut(self) except -1:
        """Cut the data at its end. Taken memory that is mostly empty is given back: whoever keeps rows keeps all of it."""
        if not self.is_taken:
            if self.c.used < len(self.data):
                PyByteArray_Resize(self.data, self.c.used)
        elif 2 * <Py_ssize_t>self.c.used < self.taken.len:
            self.data = PyByteArray_FromStringAndSize(<char*>self.c.data, self.c.used)
        else:
            self.data = memoryview(self.data)[:self.c.used]
        return 0

    cdef tuple buffers(self):
        PyByteArray_Resize(self.offsets, 4 * (self.c.rows + 1))
        self.cut()
        if self.c.nulls == 0:
            return self.offsets, self.data, None, 0
        PyByteArray_Resize(self.valid, (self.c.rows + 7) // 8)
        return self.offsets, self.data, self.valid, self.c.nulls


cdef struct Rows:
    int64_t* offsets
    int64_t* timestamps
    uint8_t* types
    int32_t* header_offsets
    Column* key
    Column* value
    Column* header_key
    Column* header_value
    Py_ssize_t header_room


cdef struct Body:
    Py_ssize_t position
    Py_ssize_t end
    int64_t count
    int64_t base_offset
    int64_t base_timestamp
    int timestamp_type
    int64_t append_time
    int64_t from_offset


cdef int put_headers(Bytes p, Record* r, Rows* out) noexcept nogil:
    cdef Py_ssize_t at = r.headers_at, key_at, value_at
    cdef int64_t key_length, value_length, index
    if r.header_count > out.header_room - out.header_key.rows:
        return MORE_HEADERS
    for index in range(r.header_count):
        if not next_header(p, &at, r.end, &key_at, &key_length, &value_at, &value_length):
            return FIELDS
        put(out.header_key, p + key_at, key_length)
        put(out.header_value, p + value_at, value_length)
    return SOUND if at == r.end else FIELDS


cdef int put_body(Bytes p, Body* b, Rows* out) noexcept nogil:
    """Append the records of a body to the columns; `b.position` is left at the record that is wrong."""
    cdef int64_t index, offset
    cdef Py_ssize_t row
    cdef int fault
    cdef Record r
    for index in range(b.count):
        if b.position == b.end:
            return MISSING
        fault = parse(p, b.position, b.end, &r)
        if fault != SOUND:
            return fault
        offset = add(b.base_offset, r.offset)
        if offset < b.from_offset:
            if r.header_count and skip_headers(p, &r) != SOUND:
                return FIELDS
            b.position = r.end
            continue
        if r.header_count:
            fault = put_headers(p, &r, out)
            if fault != SOUND:
                return fault
        row = out.key.rows
        out.offsets[row] = offset
        out.timestamps[row] = b.append_time if b.timestamp_type else add(b.base_timestamp, r.delta)
        out.types[row] = <uint8_t>b.timestamp_type
        put(out.key, p + r.key_at, r.key_length)
        put(out.value, p + r.value_at, r.value_length)
        out.header_offsets[row + 1] = <int32_t>out.header_key.rows
        b.position = r.end
    return EXTRA if b.position < b.end else SOUND


def decode(parts, int64_t from_offset, take=None):
    """Return the records of several bodies as the fields of `columns.Columns`; values may go into what `take` returns."""
    cdef list views = [(View(part[0]), *part[1:]) for part in parts]
    cdef int64_t rows = 0, room = 0
    cdef View view
    cdef Py_ssize_t start, end
    for part in views:
        view, start, end = part[:3]
        view.cut(start, &end)
        room += end - start
        rows += max(0, min(part[3], (end - start) // SMALLEST_RECORD))
    if room > 0x7FFFFFFF:
        raise OverflowError("more than 2 GiB of records for one set of columns")
    # Few topics have headers; their room, of a header for each two bytes, is taken when the first is met.
    columns = put_bodies(views, rows, room, 0, from_offset, take)
    if columns is None:
        columns = put_bodies(views, rows, room, room // 2, from_offset, take)
        assert columns is not None, "parse lets no record claim more headers than fit"
    return columns


cdef object put_bodies(
    list views, Py_ssize_t rows, Py_ssize_t room, Py_ssize_t header_room, int64_t from_offset, take
):
    """Decode, or return None when there are more headers than room for them."""
    offsets = PyByteArray_FromStringAndSize(NULL, 8 * rows)
    timestamps = PyByteArray_FromStringAndSize(NULL, 8 * rows)
    types = PyByteArray_FromStringAndSize(NULL, rows)
    header_offsets = PyByteArray_FromStringAndSize(NULL, 4 * (rows + 1))
    cdef Growing key = Growing(rows, room), value = Growing(rows, room, take)
    cdef Py_ssize_t header_bytes = room if header_room else 0
    cdef Growing header_key = Growing(header_room, header_bytes)
    cdef Growing header_value = Growing(header_room, header_bytes)
    cdef Rows out
    out.offsets = <int64_t*>PyByteArray_AS_STRING(offsets)
    out.timestamps = <int64_t*>PyByteArray_AS_STRING(timestamps)
    out.types = <uint8_t*>PyByteArray_AS_STRING(types)
    out.header_offsets = <int32_t*>PyByteArray_AS_STRING(header_offsets)
    out.header_offsets[0] = 0
    out.key = &key.c
    out.value = &value.c
    out.header_key = &header_key.c
    out.header_value = &header_value.c
    out.header_room = header_room
    cdef View view
    cdef Body b
    cdef int fault
    b.from_offset = from_offset
    for view, b.position, b.end, b.count, b.base_offset, b.base_timestamp, b.timestamp_type, b.append_time in views:
        view.cut(b.position, &b.end)
        check_count(b.position, b.end, b.count)
        with nogil:
            fault = put_body(view.p, &b, &out)
        if fault == MORE_HEADERS:
            return None
        if fault != SOUND:
            fail(fault, b.position)
    rows = key.c.rows
    PyByteArray_Resize(offsets, 8 * rows)
    PyByteArray_Resize(timestamps, 8 * rows)
    PyByteArray_Resize(types, rows)
    PyByteArray_Resize(header_offsets, 4 * (rows + 1))
    return (
        rows, offsets, timestamps, types, *key.buffers(), *value.buffers(), header_offsets,
        *header_key.buffers()[:2], *header_value.buffers(),
    )
