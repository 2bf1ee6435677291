# CRC-32C (Castagnoli), eight bytes a step, for work on many batches under a released lock; lz4's xxHash32; and murmur2,
# from which the partition of a key comes.

cdef uint32_t[8][256] crc_steps


cdef void make_crc_steps() noexcept:
    cdef uint32_t value
    cdef int index, bit
    for index in range(256):
        value = index
        for bit in range(8):
            value = value >> 1 ^ (<uint32_t>0x82F63B78 if value & 1 else <uint32_t>0)
        crc_steps[0][index] = value
    for index in range(256):
        value = crc_steps[0][index]
        for bit in range(1, 8):
            value = crc_steps[0][value & 0xFF] ^ value >> 8
            crc_steps[bit][index] = value


make_crc_steps()


cdef uint32_t crc32c_of(Bytes p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t crc = <uint32_t>0xFFFFFFFF
    cdef Py_ssize_t at = 0
    while size - at >= 8:
        crc ^= p[at] | <uint32_t>p[at + 1] << 8 | <uint32_t>p[at + 2] << 16 | <uint32_t>p[at + 3] << 24
        crc = (
            crc_steps[7][crc & 0xFF] ^ crc_steps[6][crc >> 8 & 0xFF]
            ^ crc_steps[5][crc >> 16 & 0xFF] ^ crc_steps[4][crc >> 24]
            ^ crc_steps[3][p[at + 4]] ^ crc_steps[2][p[at + 5]]
            ^ crc_steps[1][p[at + 6]] ^ crc_steps[0][p[at + 7]]
        )
        at += 8
    while at < size:
        crc = crc >> 8 ^ crc_steps[0][(crc ^ p[at]) & 0xFF]
        at += 1
    return crc ^ <uint32_t>0xFFFFFFFF


cdef enum:
    PRIME_1 = 2654435761
    PRIME_2 = 2246822519
    PRIME_3 = 3266489917
    PRIME_4 = 668265263
    PRIME_5 = 374761393


cdef inline uint32_t rotated(uint32_t value, int by) noexcept nogil:
    return value << by | value >> (32 - by)


cdef inline uint32_t word_at(Bytes p) noexcept nogil:
    return p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24


cdef uint32_t xxhash32_of(Bytes p, Py_ssize_t size) noexcept nogil:
    cdef uint32_t a = <uint32_t>PRIME_1 + <uint32_t>PRIME_2, b = <uint32_t>PRIME_2
    cdef uint32_t c = 0, d = 0 - <uint32_t>PRIME_1, value
    cdef Py_ssize_t at = 0
    if size >= 16:
        while size - at >= 16:
            a = rotated(a + word_at(p + at) * <uint32_t>PRIME_2, 13) * <uint32_t>PRIME_1
            b = rotated(b + word_at(p + at + 4) * <uint32_t>PRIME_2, 13) * <uint32_t>PRIME_1
            c = rotated(c + word_at(p + at + 8) * <uint32_t>PRIME_2, 13) * <uint32_t>PRIME_1
            d = rotated(d + word_at(p + at + 12) * <uint32_t>PRIME_2, 13) * <uint32_t>PRIME_1
            at += 16
        value = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
    else:
        value = <uint32_t>PRIME_5
    value += <uint32_t>size
    while size - at >= 4:
        value = rotated(value + word_at(p + at) * <uint32_t>PRIME_3, 17) * <uint32_t>PRIME_4
        at += 4
    while at < size:
        value = rotated(value + p[at] * <uint32_t>PRIME_5, 11) * <uint32_t>PRIME_1
        at += 1
    value = (value ^ value >> 15) * <uint32_t>PRIME_2
    value = (value ^ value >> 13) * <uint32_t>PRIME_3
    return value ^ value >> 16


def xxhash32(data):
    """Return the xxHash32 with the seed 0."""
    cdef View view = View(data)
    cdef uint32_t value
    with nogil:
        value = xxhash32_of(view.p, view.size)
    return value


cdef enum:
    MURMUR_FACTOR = 0x5BD1E995
    MURMUR_SEED = 0x9747B28C


cdef uint32_t murmur2_of(Bytes p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at = 0
    cdef uint32_t hashed = <uint32_t>MURMUR_SEED ^ <uint32_t>size, word
    while size - at >= 4:
        word = word_at(p + at) * <uint32_t>MURMUR_FACTOR
        word = (word ^ word >> 24) * <uint32_t>MURMUR_FACTOR
        hashed = (hashed * <uint32_t>MURMUR_FACTOR) ^ word
        at += 4
    if at < size:
        word = 0
        while size > at:
            size -= 1
            word = word << 8 | p[size]
        hashed = (hashed ^ word) * <uint32_t>MURMUR_FACTOR
    hashed = (hashed ^ hashed >> 13) * <uint32_t>MURMUR_FACTOR
    return hashed ^ hashed >> 15


def murmur2(bytes data not None):
    """Return the 32-bit hash, without sign, that Java's default partitioner takes of a key."""
    return murmur2_of(<Bytes>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
