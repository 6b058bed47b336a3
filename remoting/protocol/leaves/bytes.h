/* Numbers and questions about plain bytes. CPython has a read_u16 and the like itself, in headers that Cython includes. */
#ifndef AIOROCKETMQ_BYTES_H
#define AIOROCKETMQ_BYTES_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bytes_read_u16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static inline uint32_t bytes_read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline int64_t bytes_read_i64(const uint8_t *p)
{
    return (int64_t)((uint64_t)bytes_read_u32(p) << 32 | bytes_read_u32(p + 4));
}

static inline void bytes_write_u32(uint8_t *p, uint32_t number)
{
    for (int at = 0; at < 4; at++)
        p[at] = (uint8_t)(number >> (24 - 8 * at));
}

static inline void bytes_write_i64(uint8_t *p, int64_t number)
{
    bytes_write_u32(p, (uint32_t)((uint64_t)number >> 32));
    bytes_write_u32(p + 4, (uint32_t)number);
}

static inline int bytes_all_zero(const uint8_t *p, size_t size)
{
    return !size || (!p[0] && !memcmp(p, p + 1, size - 1));
}

static inline int bytes_is_ascii(const uint8_t *text, size_t size)
{
    uint64_t high = 0, bytes;
    for (; size >= 8; text += 8, size -= 8) {
        memcpy(&bytes, text, 8);
        high |= bytes;
    }
    while (size--)
        high |= *text++;
    return !(high & 0x8080808080808080u);
}

/* As Python hashes bytes: SipHash with a random key. */
static inline uint64_t bytes_hash(const uint8_t *p, size_t size)
{
    return (uint64_t)PyHash_GetFuncDef()->hash(p, (Py_ssize_t)size);
}

#endif
