# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The kernel in C. What each call does and refuses is said in `pure`; both give the same for the same bytes."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from cpython.ref cimport Py_INCREF, PyObject
from cpython.tuple cimport PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kavka.wire.records import corrupt
from kavka.wire.records.corrupt import CorruptBatch

NAME = "compiled"

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject* (*tp_alloc)(PyTypeObject*, Py_ssize_t) except NULL

ctypedef const uint8_t* Bytes

cdef enum:
    SOUND = 0
    LENGTH = 1
    FIELDS = 2
    MISSING = 3
    EXTRA = 4
    MORE_HEADERS = 5
    SMALLEST_RECORD = 7
    WRONG_OFFSET = 1
    NO_KEY = 2
    BAD_TIMESTAMP = 3
    MOST_VIOLATIONS = 1024

cdef struct Record:
    Py_ssize_t end
    int64_t delta
    int64_t offset
    Py_ssize_t key_at
    int64_t key_length
    Py_ssize_t value_at
    int64_t value_length
    Py_ssize_t headers_at
    int64_t header_count


# Reading. A number is read once into a local and checked there: the bytes may change under a released lock.

cdef inline int varint(Bytes p, Py_ssize_t* at, Py_ssize_t end, int most, int64_t* number) noexcept nogil:
    """Read a zigzag number of at most `most` bytes; return 0 when it is not there."""
    cdef Py_ssize_t position = at[0]
    cdef Py_ssize_t stop = end if end - position < most else position + most
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while position < stop:
        byte = p[position]
        position += 1
        value |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            if most == 5:
                value &= <uint64_t>0xFFFFFFFFU
            number[0] = <int64_t>((value >> 1) ^ (0 - (value & 1)))
            at[0] = position
            return 1
        shift += 7
    return 0


cdef inline int parse(Bytes p, Py_ssize_t position, Py_ssize_t end, Record* r) noexcept nogil:
    """Read a record's fields up to its headers."""
    cdef int64_t length
    cdef Py_ssize_t at = position
    if not varint(p, &at, end, 5, &length) or length < 0 or length > end - at:
        return LENGTH
    r.end = at + length
    if length == 0:
        return FIELDS
    at += 1
    if not varint(p, &at, r.end, 10, &r.delta) or not varint(p, &at, r.end, 5, &r.offset):
        return FIELDS
    if not varint(p, &at, r.end, 5, &r.key_length) or r.key_length > r.end - at:
        return FIELDS
    r.key_at = at
    if r.key_length > 0:
        at += r.key_length
    if not varint(p, &at, r.end, 5, &r.value_length) or r.value_length > r.end - at:
        return FIELDS
    r.value_at = at
    if r.value_length > 0:
        at += r.value_length
    if not varint(p, &at, r.end, 5, &r.header_count):
        return FIELDS
    # A header takes two bytes at least; `decode` counts on that for its room.
    if r.header_count < 0 or 2 * r.header_count > r.end - at or (r.header_count == 0 and at != r.end):
        return FIELDS
    r.headers_at = at
    return SOUND


cdef inline int next_header(
    Bytes p, Py_ssize_t* at, Py_ssize_t end,
    Py_ssize_t* key_at, int64_t* key_length, Py_ssize_t* value_at, int64_t* value_length
) noexcept nogil:
    """Read a header; return 0 when it does not lie before `end`."""
    if not varint(p, at, end, 5, key_length) or key_length[0] < 0 or key_length[0] > end - at[0]:
        return 0
    key_at[0] = at[0]
    at[0] += key_length[0]
    if not varint(p, at, end, 5, value_length) or value_length[0] > end - at[0]:
        return 0
    value_at[0] = at[0]
    if value_length[0] > 0:
        at[0] += value_length[0]
    return 1


cdef int skip_headers(Bytes p, Record* r) noexcept nogil:
    """Hold the headers to the format; the last must end where the record does."""
    cdef Py_ssize_t at = r.headers_at, key_at, value_at
    cdef int64_t key_length, value_length, index
    for index in range(r.header_count):
        if not next_header(p, &at, r.end, &key_at, &key_length, &value_at, &value_length):
            return FIELDS
    return SOUND if at == r.end else FIELDS


cdef inline int64_t add(int64_t left, int64_t right) noexcept nogil:
    """Add as Java does: the sum wraps."""
    return <int64_t>(<uint64_t>left + <uint64_t>right)


cdef object fail(int fault, Py_ssize_t position):
    raise CorruptBatch(corrupt.FAULTS[fault], position)


cdef class View:
    """A buffer held for reading."""

    cdef Py_buffer buffer
    cdef Bytes p
    cdef Py_ssize_t size
    cdef int held

    def __cinit__(self, source):
        self.held = 0
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.held = 1
        self.p = <Bytes>self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)

    cdef int cut(self, Py_ssize_t start, Py_ssize_t* end) except -1:
        """Clip the end of a body as a slice would."""
        if start < 0 or end[0] < 0:
            raise ValueError("a negative position")
        if end[0] > self.size:
            end[0] = self.size
        if end[0] < start:
            end[0] = start
        return 0


cdef int check_count(Py_ssize_t start, Py_ssize_t end, int64_t count) except -1:
    if count < 0 or count * SMALLEST_RECORD > end - start:
        fail(MISSING, start)
    return 0


def check(
    body, Py_ssize_t start, Py_ssize_t end, int64_t first, int64_t count, bint last, bint needs_key,
    int64_t base_timestamp, int64_t earliest, int64_t latest,
):
    """Walk records of a produced batch and hold them to the rules."""
    cdef View view = View(body)
    view.cut(start, &end)
    if count < 0:
        fail(MISSING, start)
    cdef Bytes p = view.p
    cdef Py_ssize_t position = start, at
    cdef int64_t index = first, largest = -1, largest_index = -1, timestamp, length
    cdef int32_t[2 * MOST_VIOLATIONS] broken
    cdef int noted = 0, rule, fault = SOUND
    cdef Record r
    with nogil:
        while index < count and position < end:
            if not last:
                at = position
                if varint(p, &at, end, 5, &length):
                    if length > end - at:
                        break
                elif end - position < 5:
                    break
            fault = parse(p, position, end, &r)
            if fault == SOUND and r.header_count:
                fault = skip_headers(p, &r)
            if fault != SOUND:
                break
            timestamp = add(base_timestamp, r.delta)
            if timestamp > largest:
                largest = timestamp
                largest_index = index
            rule = 0
            if r.offset != index:
                rule = WRONG_OFFSET
            elif needs_key and r.key_length < 0:
                rule = NO_KEY
            elif timestamp != -1 and (timestamp < earliest or timestamp > latest):
                rule = BAD_TIMESTAMP
            if rule and noted < MOST_VIOLATIONS:
                broken[2 * noted] = <int32_t>index
                broken[2 * noted + 1] = rule
                noted += 1
            position = r.end
            index += 1
    if fault != SOUND:
        fail(fault, position)
    if index == count and position < end:
        fail(EXTRA, position)
    if last and index < count:
        fail(MISSING, position)
    return (
        index, position, largest, largest_index,
        [(broken[2 * at], broken[2 * at + 1]) for at in range(noted)],
    )


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


cdef inline void give(PyObject* made, Py_ssize_t index, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(<tuple>made, index, item)


def records(
    body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_offset, int64_t base_timestamp,
    int timestamp_type, int64_t append_time, type record_type,
):
    """Return the records as `record_type`s, a NamedTuple of six fields."""
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
        one = factory.tp_alloc(factory, 6)
        give(one, 0, offset)
        give(one, 1, timestamp)
        give(one, 2, kind)
        give(one, 3, key)
        give(one, 4, value)
        give(one, 5, headers)
        item = <object>one
        # tp_alloc gave one reference and `item` took another.
        Py_DECREF_one(one)
        made.append(item)
        position = r.end
    if position < end:
        fail(EXTRA, position)
    return made


cdef extern from "Python.h":
    void Py_DECREF_one "Py_DECREF" (PyObject*)


# Columns. Every output is allocated at the size that the bodies could need at most, and cut at the end.

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
    """The bytearrays behind a Column."""

    cdef object offsets, data, valid
    cdef Column c

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t room):
        self.offsets = PyByteArray_FromStringAndSize(NULL, 4 * (rows + 1))
        self.data = PyByteArray_FromStringAndSize(NULL, room)
        self.valid = PyByteArray_FromStringAndSize(NULL, (rows + 7) // 8)
        self.c.offsets = <int32_t*>PyByteArray_AS_STRING(self.offsets)
        self.c.data = <uint8_t*>PyByteArray_AS_STRING(self.data)
        self.c.valid = <uint8_t*>PyByteArray_AS_STRING(self.valid)
        memset(self.c.valid, 0, (rows + 7) // 8)
        self.c.offsets[0] = 0
        self.c.rows = 0
        self.c.used = 0
        self.c.nulls = 0

    cdef tuple buffers(self):
        PyByteArray_Resize(self.offsets, 4 * (self.c.rows + 1))
        if self.c.used < len(self.data):
            PyByteArray_Resize(self.data, self.c.used)
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


def decode(parts, int64_t from_offset):
    """Return the records of several bodies as the fields of `columns.Columns`."""
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
    columns = put_bodies(views, rows, room, 0, from_offset)
    if columns is None:
        columns = put_bodies(views, rows, room, room // 2, from_offset)
        assert columns is not None, "parse lets no record claim more headers than fit"
    return columns


cdef object put_bodies(
    list views, Py_ssize_t rows, Py_ssize_t room, Py_ssize_t header_room, int64_t from_offset
):
    """Decode, or return None when there are more headers than room for them."""
    offsets = PyByteArray_FromStringAndSize(NULL, 8 * rows)
    timestamps = PyByteArray_FromStringAndSize(NULL, 8 * rows)
    types = PyByteArray_FromStringAndSize(NULL, rows)
    header_offsets = PyByteArray_FromStringAndSize(NULL, 4 * (rows + 1))
    cdef Growing key = Growing(rows, room), value = Growing(rows, room)
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


# Writing. Sizes are added up first, so that each output is allocated once.

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
    """Return the headers of each record as a flat list: key, value, key, value…; None where there is none."""
    if headers is None:
        return None
    if len(headers) != count:
        raise ValueError(f"a column of {len(headers)} for {count} records")
    cdef list lists = [], found
    for entries in headers:
        if not entries:
            lists.append(None)
            continue
        found = []
        for name, content in entries:
            if name is None:
                raise ValueError("a header without a key")
            found.append(name.encode() if isinstance(name, str) else bytes(memoryview(name)))
            found.append(content if content is None else bytes(memoryview(content)))
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
    int64_t count, timestamps, keys, values, headers, int64_t base_timestamp, Py_ssize_t reserve
):
    """Return records as bytes after `reserve` bytes of zeros."""
    cdef list key_list = flat(keys, count), value_list = flat(values, count)
    cdef list header_lists = flat_headers(headers, count), entries
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
        entries = None if header_lists is None else header_lists[index]
        if entries is None:
            size += 1
        else:
            size += varint_size(len(entries) // 2)
            for entry in range(len(entries)):
                size += bytes_size(length_of(entries, entry))
        if size > 0x7FFFFFFF:
            raise OverflowError("a record of more than 2 GiB")
        sizes[index] = size
        total += varint_size(size) + size
    output = PyByteArray_FromStringAndSize(NULL, total)
    cdef uint8_t* p = <uint8_t*>PyByteArray_AS_STRING(output)
    memset(p, 0, reserve)
    p += reserve
    for index in range(count):
        p = put_varint(p, sizes[index])
        p[0] = 0
        p = put_varint(put_varint(p + 1, deltas[index]), index)
        p = put_bytes(p, bytes_of(key_list, index), length_of(key_list, index))
        p = put_bytes(p, bytes_of(value_list, index), length_of(value_list, index))
        entries = None if header_lists is None else header_lists[index]
        if entries is None:
            p[0] = 0
            p += 1
        else:
            p = put_varint(p, len(entries) // 2)
            for entry in range(len(entries)):
                p = put_bytes(p, bytes_of(entries, entry), length_of(entries, entry))
    return output


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
    begin[0] = offset_at(c, index)
    length[0] = offset_at(c, index + 1) - begin[0]
    return begin[0] >= 0 and length[0] >= 0 and begin[0] + length[0] <= c.size


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
    cdef int64_t first, many, entry
    if varint_size(size) + size > stop - p:
        return NULL
    p = put_varint(p, size)
    p[0] = 0
    p = put_varint(put_varint(p + 1, delta_at(t, index)), index)
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


def gather(parts):
    """Return rows of several columns as one column of bytes, or of list offsets where a part has no bytes."""
    cdef list sources = [Source(*part[:5]) for part in parts]
    cdef int64_t rows = 0, room = 0, index, count, begin, length
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
