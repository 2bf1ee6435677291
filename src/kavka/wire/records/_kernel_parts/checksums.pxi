# CRC-32C (Castagnoli), eight bytes a step, for work on many batches under a released lock.

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
