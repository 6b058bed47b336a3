/* CRC-32 of zlib (polynomial 0xEDB88320, reflected): CRC of a stored body.
 *
 * With carry-less multiplication (x86-64, asked for at run time) 16 bytes are one step: a block B that stands n bits in front
 * of the end weighs B * x^n modulo the polynomial, so its two halves, multiplied by constants, can be added (xor) to a block
 * further on, until one block is left. V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction" (2009); tests/remoting/protocol/leaves/test_crc32.py computes the constants again. Elsewhere eight tables
 * take 8 bytes at a time.
 */
#ifndef AIOROCKETMQ_CRC32_H
#define AIOROCKETMQ_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc32_table[8][256];

/* To be called once, before the first CRC. */
static void crc32_make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
        crc32_table[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = crc32_table[table - 1][byte];
            crc32_table[table][byte] = (crc >> 8) ^ crc32_table[0][crc & 255];
        }
}

/* The inner register (not inverted) after n more bytes. */
static inline uint32_t crc32_by_tables(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        crc ^= p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        crc = crc32_table[7][crc & 255] ^ crc32_table[6][crc >> 8 & 255] ^ crc32_table[5][crc >> 16 & 255] ^ crc32_table[4][crc >> 24]
            ^ crc32_table[3][p[4]] ^ crc32_table[2][p[5]] ^ crc32_table[1][p[6]] ^ crc32_table[0][p[7]];
    }
    while (n--)
        crc = (crc >> 8) ^ crc32_table[0][(crc ^ *p++) & 255];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define CRC32_TARGET __attribute__((target("pclmul,sse4.1")))

/* `block` moved on by the distance of `weights`, onto what stands there. */
CRC32_TARGET static inline __m128i crc32_onto(__m128i block, __m128i weights, __m128i there)
{
    __m128i low = _mm_clmulepi64_si128(block, weights, 0x00), high = _mm_clmulepi64_si128(block, weights, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

CRC32_TARGET static inline __m128i crc32_block(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

/* Like crc32_by_tables, for n >= 16. */
CRC32_TARGET static uint32_t crc32_by_products(uint32_t crc, const uint8_t *p, size_t n)
{
    const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i by_4 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i polynomial = _mm_set_epi64x(0x1f7011641, 0x1db710641); /* and its inverse in front */
    const __m128i words = _mm_set_epi32(0, -1, 0, -1);
    __m128i a = _mm_xor_si128(crc32_block(p), _mm_cvtsi32_si128((int)crc));
    p += 16, n -= 16;
    if (n >= 48) {
        __m128i b = crc32_block(p), c = crc32_block(p + 16), d = crc32_block(p + 32);
        for (p += 48, n -= 48; n >= 64; p += 64, n -= 64) {
            a = crc32_onto(a, by_64, crc32_block(p));
            b = crc32_onto(b, by_64, crc32_block(p + 16));
            c = crc32_onto(c, by_64, crc32_block(p + 32));
            d = crc32_onto(d, by_64, crc32_block(p + 48));
        }
        a = crc32_onto(crc32_onto(crc32_onto(a, by_16, b), by_16, c), by_16, d);
    }
    for (; n >= 16; p += 16, n -= 16)
        a = crc32_onto(a, by_16, crc32_block(p));
    if (n) { /* The last 16 bytes of both are one block, the n bytes in front of them a second one. */
        static const uint8_t around[48] = {
            128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
            128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
        };
        __m128i front = _mm_shuffle_epi8(a, crc32_block(around + n));
        __m128i moved = crc32_block(around + 16 + n); /* a without its first n bytes, then the n bytes of the end */
        __m128i back = _mm_blendv_epi8(_mm_shuffle_epi8(a, moved), crc32_block(p + n - 16), moved);
        a = crc32_onto(front, by_16, back);
    }
    /* 128 bits to 96 to 64, then Barrett's reduction to 32. */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, words), by_4, 0x00));
    __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(a, words), polynomial, 0x10), words);
    a = _mm_xor_si128(a, _mm_clmulepi64_si128(quotient, polynomial, 0x00));
    return (uint32_t)_mm_extract_epi32(a, 1);
}

static inline int crc32_has_products(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static inline int crc32_has_products(void)
{
    return 0;
}
#define crc32_by_products crc32_by_tables
#endif

/* zlib's crc32(crc, p, n). */
static inline uint32_t crc32_of(uint32_t crc, const uint8_t *p, size_t n)
{
    return ~(n >= 16 && crc32_has_products() ? crc32_by_products(~crc, p, n) : crc32_by_tables(~crc, p, n));
}

#endif
