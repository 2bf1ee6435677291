# Cleaning: whole blocks of batches that are plain, and single bodies of those that are not.
#
# A batch is plain when it is not compressed and no part of a transaction. The calls on blocks stop at the first one that is
# not, or that is not whole.

cdef enum:
    BAD_CRC = 100
    NOT_PLAIN = 0x37  # codec, transactional and control bits
    LOG_TIME = 0x08
    HORIZON = 0x40


cdef int64_t plain_size(Bytes p, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
    """Return the size of the plain batch that begins here, 0 when there is none."""
    if end - position < HEADER_SIZE or p[position + 16] != MAGIC:
        return 0
    cdef int64_t size = <int64_t><int32_t>number(p + position + 8, 4) + LENGTH_END
    if size < HEADER_SIZE or size > end - position or p[position + 22] & NOT_PLAIN:
        return 0
    if <int32_t>number(p + position + 57, 4) < 0 or <int32_t>number(p + position + 23, 4) < 0:
        return 0
    return size


cdef inline int is_whole(Bytes p, Py_ssize_t size) noexcept nogil:
    return crc32c_of(p + CRC_START, size - CRC_START) == <uint32_t>number(p + 17, 4)


cdef object fail_batch(int fault, Py_ssize_t batch, Py_ssize_t position):
    if fault == BAD_CRC:
        raise CorruptBatch(corrupt.CHECKSUM, batch)
    fail(fault, position)


cdef struct Output:
    uint8_t* bytes
    Py_ssize_t used
    Py_ssize_t room


cdef int make_room(Output* out, Py_ssize_t size) noexcept nogil:
    cdef uint8_t* grown
    if out.room - out.used >= size:
        return 1
    cdef Py_ssize_t room = 2 * out.room + size
    grown = <uint8_t*>realloc(out.bytes, room)
    if grown == NULL:
        return 0
    out.bytes = grown
    out.room = room
    return 1


cdef uint8_t* put_shifted(uint8_t* out, Bytes p, Py_ssize_t position, const Record* r, int64_t shift) noexcept nogil:
    """Write a record with its timestamp delta moved."""
    cdef int64_t length = 0, delta = 0
    cdef Py_ssize_t at = position
    varint(p, &at, r.end, 5, &length)
    cdef uint8_t attributes = p[at]
    at += 1
    varint(p, &at, r.end, 10, &delta)
    delta = add(r.delta, shift)
    out = put_varint(out, 1 + varint_size(delta) + (r.end - at))
    out[0] = attributes
    out = put_varint(out + 1, delta)
    memcpy(out, p + at, r.end - at)
    return out + (r.end - at)


cdef int rebuild_batch(
    Bytes p, Py_ssize_t size, const uint8_t* mask, int64_t count, int64_t kept, int64_t horizon, Output* out
) noexcept nogil:
    """Write a plain batch with the records that the mask keeps, under a delete horizon unless that is -1.

    Return 0 when there is no memory.
    """
    # A timestamp delta may grow by 9 bytes, and the record's length by one.
    if not make_room(out, size + 10 * kept):
        return 0
    cdef uint8_t* start = out.bytes + out.used
    cdef uint8_t* at = start + HEADER_SIZE
    cdef int64_t base = number(p + 27, 8), largest = -1, timestamp, index
    cdef int64_t shift = 0 if horizon < 0 else <int64_t>(<uint64_t>base - <uint64_t>horizon)
    cdef Py_ssize_t position = HEADER_SIZE
    cdef Record r
    memcpy(start, p, HEADER_SIZE)
    for index in range(count):
        parse(p, position, size, &r)
        if mask[index]:
            timestamp = add(base, r.delta)
            if timestamp > largest:
                largest = timestamp
            if shift:
                at = put_shifted(at, p, position, &r, shift)
            else:
                memcpy(at, p + position, r.end - position)
                at += r.end - position
        position = r.end
    if horizon >= 0:
        start[22] |= HORIZON
        put_number(start + 27, 8, horizon)
    if not start[22] & LOG_TIME:
        put_number(start + 35, 8, largest)
    put_number(start + 57, 4, kept)
    finish_batch(start, at - start)
    out.used += at - start
    return 1


cdef void finish_batch(uint8_t* start, Py_ssize_t size) noexcept nogil:
    put_number(start + 8, 4, size - LENGTH_END)
    put_number(start + 17, 4, crc32c_of(start + CRC_START, size - CRC_START))


cdef int put_empty_batch(Bytes p, Output* out) noexcept nogil:
    """Write the header of a plain batch alone."""
    if not make_room(out, HEADER_SIZE):
        return 0
    cdef uint8_t* start = out.bytes + out.used
    memcpy(start, p, HEADER_SIZE)
    start[22] &= 0xFF ^ HORIZON
    put_number(start + 27, 8, <uint64_t>-1)
    put_number(start + 57, 4, 0)
    finish_batch(start, HEADER_SIZE)
    out.used += HEADER_SIZE
    return 1


cdef int copy_batch(Bytes p, Py_ssize_t size, Output* out) noexcept nogil:
    if not make_room(out, size):
        return 0
    memcpy(out.bytes + out.used, p, size)
    out.used += size
    return 1


cdef int is_among(const int64_t* sorted_offsets, Py_ssize_t count, int64_t offset) noexcept nogil:
    cdef Py_ssize_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) // 2
        if sorted_offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low < count and sorted_offsets[low] == offset


cdef class OffsetMap:
    """Where each key was last; `pure_cleaning` documents the calls."""

    cdef Latest t

    def __cinit__(self, int64_t slots, int64_t capacity, seed):
        cdef View view = View(seed)
        if not 0 < capacity < slots:
            raise ValueError(f"a capacity of {capacity} in {slots} slots")
        if view.size != 16:
            raise ValueError(f"a seed of {view.size} bytes, not 16")
        memcpy(self.t.seed, view.p, 16)
        self.t.count = slots
        self.t.capacity = capacity
        self.t.used = 0
        self.t.slots = <Slot*>calloc(slots, sizeof(Slot))
        if self.t.slots == NULL:
            raise MemoryError(f"an offset map of {slots} slots")

    def __dealloc__(self):
        free(self.t.slots)

    def __len__(self):
        return self.t.used

    @property
    def capacity(self):
        return self.t.capacity

    def add(self, body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_offset, int64_t from_offset):
        """Note the keys of a body's records; False when one found no room."""
        cdef View view = View(body)
        view.cut(start, &end)
        check_count(start, end, count)
        cdef Py_ssize_t position = start
        cdef int fault, full
        with nogil:
            fault = note_records(&self.t, view.p, &position, end, count, base_offset, from_offset, &full)
        if fault != SOUND:
            fail(fault, position)
        return not full

    def index(self, block, Py_ssize_t start, int64_t from_offset):
        """Note the keys of plain batches; return where that ended, the last offset that was noted, whether it is full."""
        cdef View view = View(block)
        cdef Py_ssize_t position = start, at = start
        cdef int64_t size, count, last = -1
        cdef int fault = SOUND, full = 0
        if start < 0:
            raise ValueError("a negative position")
        cdef Bytes p = view.p
        with nogil:
            while True:
                size = plain_size(p, position, view.size)
                if size == 0:
                    break
                if not is_whole(p + position, size):
                    fault = BAD_CRC
                    break
                at = position + HEADER_SIZE
                count = <int32_t>number(p + position + 57, 4)
                if count > (size - HEADER_SIZE) // SMALLEST_RECORD:
                    fault = MISSING
                    break
                fault = note_records(
                    &self.t, p, &at, position + size, count, number(p + position, 8), from_offset, &full
                )
                if fault != SOUND or full:
                    break
                last = <int64_t>number(p + position, 8) + <int32_t>number(p + position + 23, 4)
                position += size
        if fault != SOUND:
            fail_batch(fault, position, at)
        return position, last, bool(full)

    def choose(
        self, body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t base_offset,
        int64_t last_indexed, bint drops_tombstones,
    ):
        """Return a mask of the records that stay, how many do, and how many of these are tombstones."""
        cdef View view = View(body)
        view.cut(start, &end)
        check_count(start, end, count)
        mask = PyByteArray_FromStringAndSize(NULL, count)
        cdef uint8_t* flags = <uint8_t*>PyByteArray_AS_STRING(mask)
        cdef Py_ssize_t position = start
        cdef int64_t kept, tombstones
        cdef int fault
        with nogil:
            fault = choose_records(
                &self.t, view.p, &position, end, count, base_offset, last_indexed, drops_tombstones,
                flags, &kept, &tombstones,
            )
        if fault != SOUND:
            fail(fault, position)
        return mask, kept, tombstones

    def filter(
        self, block, Py_ssize_t start, int64_t last_indexed, int64_t now_ms, int64_t horizon_ms,
        last_of_producers, int64_t last_of_round, epoch_starts,
    ):
        """Return where the plain batches ended, and what stays of them."""
        cdef View view = View(block), kept_ends = View(last_of_producers), kept_starts = View(epoch_starts)
        if start < 0:
            raise ValueError("a negative position")
        cdef const int64_t* ends = <const int64_t*>kept_ends.p
        cdef const int64_t* starts = <const int64_t*>kept_starts.p
        cdef Py_ssize_t end_count = kept_ends.size // 8, start_count = kept_starts.size // 8
        cdef Py_ssize_t position = start, at = start
        cdef Output out
        cdef Output masks
        memset(&out, 0, sizeof(Output))
        memset(&masks, 0, sizeof(Output))
        cdef int64_t size, count, kept = 0, tombstones = 0, base_offset, last_offset
        cdef int fault = SOUND, done = 1, has_horizon, needs_horizon, is_due
        cdef Bytes p
        with nogil:
            while True:
                size = plain_size(view.p, position, view.size)
                if size == 0:
                    break
                p = view.p + position
                if not is_whole(p, size):
                    fault = BAD_CRC
                    break
                at = position + HEADER_SIZE
                count = <int32_t>number(p + 57, 4)
                if count > (size - HEADER_SIZE) // SMALLEST_RECORD:
                    fault = MISSING
                    break
                if not make_room(&masks, count):
                    done = 0
                    break
                base_offset = number(p, 8)
                last_offset = base_offset + <int32_t>number(p + 23, 4)
                has_horizon = 1 if p[22] & HORIZON else 0
                is_due = 1 if has_horizon and <int64_t>number(p + 27, 8) <= now_ms else 0
                fault = choose_records(
                    &self.t, view.p, &at, position + size, count, base_offset, last_indexed,
                    is_due, masks.bytes, &kept, &tombstones,
                )
                if fault != SOUND:
                    break
                needs_horizon = 1 if tombstones and not has_horizon else 0
                if kept:
                    if kept == count and not needs_horizon:
                        done = copy_batch(p, size, &out)
                    else:
                        done = rebuild_batch(
                            p, size, masks.bytes, count, kept, horizon_ms if needs_horizon else -1, &out
                        )
                elif (
                    last_offset == last_of_round
                    or is_among(starts, start_count, base_offset)
                    or (<int64_t>number(p + 43, 8) >= 0 and is_among(ends, end_count, last_offset))
                ):
                    done = put_empty_batch(p, &out)
                if not done:
                    break
                position += size
        content = PyByteArray_FromStringAndSize(<char*>out.bytes, out.used) if done else None
        free(out.bytes)
        free(masks.bytes)
        if not done:
            raise MemoryError("cleaning a block")
        if fault != SOUND:
            fail_batch(fault, position, at)
        return position, content


def rebase(body, Py_ssize_t start, Py_ssize_t end, int64_t count, int64_t shift):
    """Return the records with `shift` added to each timestamp delta."""
    cdef View view = View(body)
    view.cut(start, &end)
    check_count(start, end, count)
    cdef Py_ssize_t position = start
    moved = PyByteArray_FromStringAndSize(NULL, end - start + 10 * count)
    cdef uint8_t* first = <uint8_t*>PyByteArray_AS_STRING(moved)
    cdef uint8_t* out = first
    cdef int64_t index
    cdef int fault = SOUND
    cdef Record r
    with nogil:
        for index in range(count):
            fault = next_record(view.p, position, end, &r)
            if fault != SOUND:
                break
            out = put_shifted(out, view.p, position, &r, shift)
            position = r.end
    if fault != SOUND:
        fail(fault, position)
    if position < end:
        fail(EXTRA, position)
    PyByteArray_Resize(moved, out - first)
    return moved


def outline(buffer, int64_t interval, int64_t unindexed, int64_t largest, int64_t largest_offset):
    """Return the index entries of batches, and what the next buffer's go on with."""
    cdef View view = View(buffer)
    cdef Py_ssize_t position = 0
    cdef int64_t size, last_offset = -1, timestamp
    cdef list entries = []
    while view.size - position >= HEADER_SIZE:
        size = <int64_t><int32_t>number(view.p + position + 8, 4) + LENGTH_END
        if size < HEADER_SIZE or size > view.size - position:
            break
        last_offset = <int64_t>number(view.p + position, 8) + <int32_t>number(view.p + position + 23, 4)
        timestamp = number(view.p + position + 35, 8)
        if timestamp > largest and number(view.p + position + 57, 4):
            largest = timestamp
            largest_offset = last_offset
        if unindexed > interval:
            entries.append((position, last_offset, largest, largest_offset))
            unindexed = 0
        unindexed += size
        position += size
    if position < view.size:
        raise CorruptBatch("bytes that are no whole batch", position)
    return entries, unindexed, largest, largest_offset, last_offset
