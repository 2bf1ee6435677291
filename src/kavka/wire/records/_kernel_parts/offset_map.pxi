# The cleaner's map from keys to their latest offsets.
#
# A slot has 24 bytes: the key's hash of 128 bits and its offset. Two keys with one hash would be one key, so the hash is
# keyed (SipHash-2-4, Aumasson and Bernstein 2012): who does not know the seed cannot make two such keys.

cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t offset_plus_1  # 0 is a free slot


cdef inline uint64_t turned(uint64_t value, int bits) noexcept nogil:
    return value << bits | value >> (64 - bits)


cdef inline void sip_round(uint64_t* v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = turned(v[1], 13) ^ v[0]
    v[3] = turned(v[3], 16) ^ v[2]
    v[0] = turned(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = turned(v[1], 17) ^ v[2]
    v[3] = turned(v[3], 21) ^ v[0]
    v[2] = turned(v[2], 32)


cdef inline void sip_word(uint64_t* v, uint64_t word) noexcept nogil:
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word


cdef void hash_key(const uint64_t* seed, Bytes key, int64_t length, Slot* found) noexcept nogil:
    cdef uint64_t[4] v
    cdef uint64_t word
    cdef int64_t at = 0
    cdef int index
    v[0] = seed[0] ^ <uint64_t>0x736F6D6570736575
    v[1] = seed[1] ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    v[2] = seed[0] ^ <uint64_t>0x6C7967656E657261
    v[3] = seed[1] ^ <uint64_t>0x7465646279746573
    while length - at >= 8:
        memcpy(&word, key + at, 8)
        sip_word(v, word)
        at += 8
    word = <uint64_t>length << 56
    for index in range(<int>(length - at)):
        word |= <uint64_t>key[at + index] << 8 * index
    sip_word(v, word)
    v[2] ^= 0xEE
    for index in range(4):
        sip_round(v)
    found.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for index in range(4):
        sip_round(v)
    found.high = v[0] ^ v[1] ^ v[2] ^ v[3]


cdef struct Latest:
    Slot* slots
    int64_t count
    int64_t capacity
    int64_t used
    uint64_t[2] seed


cdef Slot* find_slot(Latest* t, Bytes key, int64_t length, Slot* hashed) noexcept nogil:
    """Return the key's slot, or the free one where it would be."""
    hash_key(t.seed, key, length, hashed)
    cdef int64_t at = <int64_t>(hashed.low % <uint64_t>t.count)
    cdef Slot* slot = t.slots + at
    while slot.offset_plus_1 and (slot.low != hashed.low or slot.high != hashed.high):
        at += 1
        if at == t.count:
            at = 0
        slot = t.slots + at
    return slot


cdef int note_key(Latest* t, Bytes key, int64_t length, int64_t offset) noexcept nogil:
    """Note a key's latest offset; 0 when the key is new and there is no room."""
    cdef Slot hashed
    cdef Slot* slot = find_slot(t, key, length, &hashed)
    if slot.offset_plus_1 == 0:
        if t.used == t.capacity:
            return 0
        t.used += 1
        slot.low = hashed.low
        slot.high = hashed.high
    slot.offset_plus_1 = offset + 1
    return 1


cdef int64_t latest_of(Latest* t, Bytes key, int64_t length) noexcept nogil:
    cdef Slot hashed
    return find_slot(t, key, length, &hashed).offset_plus_1 - 1


cdef int next_record(
    Bytes p, Py_ssize_t position, Py_ssize_t end, Record* r
) noexcept nogil:
    cdef int fault
    if position >= end:
        return MISSING
    fault = parse(p, position, end, r)
    return skip_headers(p, r) if fault == SOUND and r.header_count else fault


cdef int note_records(
    Latest* t, Bytes p, Py_ssize_t* position, Py_ssize_t end, int64_t count,
    int64_t base_offset, int64_t from_offset, int* full
) noexcept nogil:
    """Note the keys of a body's records from an offset on; `full` when one found no room."""
    cdef Record r
    cdef int64_t index, offset
    cdef int fault
    full[0] = 0
    for index in range(count):
        fault = next_record(p, position[0], end, &r)
        if fault != SOUND:
            return fault
        offset = add(base_offset, r.offset)
        if r.key_length >= 0 and offset >= from_offset:
            if not note_key(t, p + r.key_at, r.key_length, offset):
                full[0] = 1
                return SOUND
        position[0] = r.end
    return SOUND if position[0] == end else EXTRA


cdef int choose_records(
    Latest* t, Bytes p, Py_ssize_t* position, Py_ssize_t end, int64_t count, int64_t base_offset,
    int64_t last_indexed, bint drops_tombstones, uint8_t* mask, int64_t* kept, int64_t* tombstones
) noexcept nogil:
    """Mark the records that stay; count them, and those of them that are tombstones."""
    cdef Record r
    cdef int64_t index, offset
    cdef int fault, stays
    kept[0] = tombstones[0] = 0
    for index in range(count):
        fault = next_record(p, position[0], end, &r)
        if fault != SOUND:
            return fault
        offset = add(base_offset, r.offset)
        if offset > last_indexed:
            stays = 1
        elif r.key_length < 0 or (r.value_length < 0 and drops_tombstones):
            stays = 0
        else:
            stays = offset >= latest_of(t, p + r.key_at, r.key_length)
        mask[index] = stays
        kept[0] += stays
        if stays and r.value_length < 0:
            tombstones[0] += 1
        position[0] = r.end
    return SOUND if position[0] == end else EXTRA
