# Headers of batches.

cdef enum:
    HEADER_SIZE = 61
    LENGTH_END = 12
    CRC_START = 21
    MAGIC = 2
    ZSTD = 4
    CODEC_BITS = 0x07
    STAMPED_OR_CONTROL = 0x28
    TRANSACTIONAL = 0x10
    HEADER_FIELDS = 15


cdef inline uint64_t number(Bytes p, int size) noexcept nogil:
    """Read a big-endian number without sign."""
    cdef uint64_t value = 0
    cdef int at
    for at in range(size):
        value = value << 8 | p[at]
    return value


cdef inline void put_number(uint8_t* p, int size, uint64_t value) noexcept nogil:
    cdef int at
    for at in range(size - 1, -1, -1):
        p[at] = value & 0xFF
        value >>= 8


cdef int is_walkable(
    Bytes p, Py_ssize_t size, bint needs_key, int64_t earliest, int64_t latest
) noexcept nogil:
    """Tell whether the records are all in order and the header's largest timestamp is theirs."""
    cdef int64_t count = <int32_t>number(p + 57, 4), index
    cdef int64_t base_timestamp = number(p + 27, 8), timestamp, largest = -1
    cdef Py_ssize_t position = HEADER_SIZE
    cdef Record r
    for index in range(count):
        if position >= size or parse(p, position, size, &r) != SOUND:
            return 0
        if r.header_count and skip_headers(p, &r) != SOUND:
            return 0
        timestamp = add(base_timestamp, r.delta)
        if timestamp > largest:
            largest = timestamp
        if r.offset != index or (needs_key and r.key_length < 0):
            return 0
        if timestamp != -1 and (timestamp < earliest or timestamp > latest):
            return 0
        position = r.end
    return position == size and largest == <int64_t>number(p + 35, 8)


def sound(
    buffer, type header_type, crc32c, int64_t max_bytes, bint needs_key,
    int64_t now_ms, int64_t before_max_ms, int64_t after_max_ms, int64_t base_offset, int leader_epoch,
):
    """Number a produced batch in which there is nothing to find fault with, and return its header."""
    cdef View view = View(buffer)
    if view.buffer.readonly:
        raise TypeError("the batch is numbered in place")
    cdef Bytes p = view.p
    cdef Py_ssize_t size = view.size
    if size < HEADER_SIZE or size > max_bytes or p[16] != MAGIC or number(p, 8) != 0:
        return None
    if <int64_t>number(p + 8, 4) + LENGTH_END != size:
        return None
    cdef int attributes = <int>number(p + 21, 2)
    cdef int32_t count = <int32_t>number(p + 57, 4)
    cdef int32_t last_delta = <int32_t>number(p + 23, 4)
    cdef int64_t producer_id = number(p + 43, 8)
    cdef int producer_epoch = <int16_t>number(p + 51, 2)
    cdef int32_t base_sequence = <int32_t>number(p + 53, 4)
    if attributes >= 0x8000 or attributes & STAMPED_OR_CONTROL or attributes & CODEC_BITS > ZSTD:
        return None
    if count <= 0 or last_delta != count - 1:
        return None
    if producer_id < 0:
        if attributes & TRANSACTIONAL:
            return None
    elif producer_epoch < 0 or base_sequence < 0:
        return None
    cdef object covered = PyMemoryView_FromMemory(<char*>(p + CRC_START), size - CRC_START, PyBUF_READ)
    cdef object crc = crc32c(covered)
    if crc != number(p + 17, 4):
        return None
    cdef int64_t latest = NO_LIMIT_MS if after_max_ms > NO_LIMIT_MS - now_ms else now_ms + after_max_ms
    cdef int walkable
    if not attributes & CODEC_BITS:
        with nogil:
            walkable = is_walkable(p, size, needs_key, now_ms - before_max_ms, latest)
        if not walkable:
            return None
    put_number(<uint8_t*>p, 8, base_offset)
    put_number(<uint8_t*>p + 12, 4, leader_epoch)
    cdef PyTypeObject* factory = <PyTypeObject*>header_type
    cdef PyObject* made = factory.tp_alloc(factory, HEADER_FIELDS)
    give(made, 0, 0)
    give(made, 1, base_offset)
    give(made, 2, size - LENGTH_END)
    give(made, 3, size)
    give(made, 4, leader_epoch)
    give(made, 5, MAGIC)
    give(made, 6, crc)
    give(made, 7, attributes)
    give(made, 8, last_delta)
    give(made, 9, <int64_t>number(p + 27, 8))
    give(made, 10, <int64_t>number(p + 35, 8))
    give(made, 11, producer_id)
    give(made, 12, producer_epoch)
    give(made, 13, base_sequence)
    give(made, 14, count)
    cdef object header = <object>made
    Py_DECREF_one(made)
    return header
