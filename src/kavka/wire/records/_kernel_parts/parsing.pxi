# The records of a body: their numbers, their bounds, and what a leader checks of them.
#
# A number is read once into a local and checked there: the bytes may change under a released lock.

cdef inline int varint(Bytes p, Py_ssize_t* at, Py_ssize_t end, int most, int64_t* number) noexcept nogil:
    """Read a zigzag number of at most `most` bytes; return 0 when it is not there."""
    cdef Py_ssize_t position = at[0]
    cdef Py_ssize_t stop = end if end - position < most else position + most
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    if position < stop:
        # Nearly all numbers have one byte.
        byte = p[position]
        if byte < 0x80:
            number[0] = <int64_t>((<uint64_t>byte >> 1) ^ (0 - <uint64_t>(byte & 1)))
            at[0] = position + 1
            return 1
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


cdef int unbounded_number(Bytes p, Py_ssize_t* at, Py_ssize_t end, int most, int64_t* number) noexcept nogil:
    """Read a number, and tell what is wrong with it: CUT when more bytes may complete it."""
    if varint(p, at, end, most, number):
        return SOUND
    return FIELDS if end - at[0] >= most else CUT


cdef int unbounded_bytes(Bytes p, Py_ssize_t* at, Py_ssize_t end, int64_t* length) noexcept nogil:
    """Pass a length and as many bytes; a negative one has none."""
    cdef int fault = unbounded_number(p, at, end, 5, length)
    if fault == SOUND and length[0] > 0:
        if length[0] > end - at[0]:
            return CUT
        at[0] += length[0]
    return fault


cdef int parse_unbounded(Bytes p, Py_ssize_t position, Py_ssize_t end, Record* r, int* misleads) noexcept nogil:
    """Read a record and its headers whatever its length says, and tell whether that, or a header without key, misleads."""
    cdef int64_t length, number, index
    cdef Py_ssize_t at = position, begin
    cdef int fault = unbounded_number(p, &at, end, 5, &length)
    if fault != SOUND:
        return LENGTH if fault == FIELDS else CUT
    begin = at
    if at == end:
        return CUT
    at += 1
    fault = unbounded_number(p, &at, end, 10, &r.delta)
    if fault == SOUND:
        fault = unbounded_number(p, &at, end, 5, &r.offset)
    if fault == SOUND:
        fault = unbounded_bytes(p, &at, end, &r.key_length)
    if fault == SOUND:
        fault = unbounded_bytes(p, &at, end, &r.value_length)
    if fault == SOUND:
        fault = unbounded_number(p, &at, end, 5, &r.header_count)
    if fault != SOUND:
        return fault
    if r.header_count < 0:
        return FIELDS
    misleads[0] = 0
    for index in range(r.header_count):
        fault = unbounded_bytes(p, &at, end, &number)
        if number < 0:
            misleads[0] = 1
        if fault == SOUND:
            fault = unbounded_bytes(p, &at, end, &number)
        if fault != SOUND:
            return fault
    r.end = at
    if at - begin != length:
        misleads[0] = 1
    return SOUND


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


cdef class Taken:
    """Memory that was taken to be written to."""

    cdef object memory
    cdef Py_buffer buffer
    cdef bint held

    def __cinit__(self, memory, Py_ssize_t needed):
        self.held = False
        self.memory = memory
        PyObject_GetBuffer(memory, &self.buffer, PyBUF_WRITABLE)
        self.held = True
        if self.buffer.len < needed:
            raise ValueError("less memory than was asked for")

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


cdef int check_count(Py_ssize_t start, Py_ssize_t end, int64_t count) except -1:
    if count < 0 or count > (end - start) // SMALLEST_RECORD:
        fail(MISSING, start)
    return 0


def check(
    body, Py_ssize_t start, Py_ssize_t end, int64_t first, int64_t count, bint last, bint needs_key,
    int64_t base_timestamp, int64_t earliest, int64_t latest, bint bounded=True,
):
    """Walk records of a produced batch and hold them to the rules."""
    cdef View view = View(body)
    view.cut(start, &end)
    if count < 0:
        fail(MISSING, start)
    cdef Bytes p = view.p
    cdef Py_ssize_t position = start, at
    cdef int64_t index = first, largest = -1, largest_index = -1, timestamp, length
    cdef int32_t[2 * MAX_VIOLATIONS] broken
    cdef int noted = 0, rule, fault = SOUND, misleads = 0
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
            if bounded:
                fault = parse(p, position, end, &r)
                if fault == SOUND and r.header_count:
                    fault = skip_headers(p, &r)
            else:
                fault = parse_unbounded(p, position, end, &r, &misleads)
                if fault == CUT:
                    fault = FIELDS if last else SOUND
                    break
            if fault != SOUND:
                break
            timestamp = add(base_timestamp, r.delta)
            if timestamp > largest:
                largest = timestamp
                largest_index = index
            rule = 0
            if needs_key and r.key_length < 0:
                rule = NO_KEY
            elif timestamp != -1 and (timestamp < earliest or timestamp > latest):
                rule = BAD_TIMESTAMP
            elif r.offset != index:
                rule = WRONG_OFFSET
            elif misleads:
                rule = MISLEADS
            if rule and noted < MAX_VIOLATIONS:
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


cdef inline void give(PyObject* made, Py_ssize_t index, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(<tuple>made, index, item)
