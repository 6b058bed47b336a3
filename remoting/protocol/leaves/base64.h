/* Base64 of RFC 4648, with padding: bodies of entries in JSON.
 *
 * With shuffles of bytes (x86-64, asked for at run time) 12 bytes are one step: W. Muła, D. Lemire, "Faster Base64 Encoding
 * and Decoding Using AVX2 Instructions" (2018), in its 128-bit form. Elsewhere three bytes are.
 */
#ifndef AIOROCKETMQ_BASE64_H
#define AIOROCKETMQ_BASE64_H

#include <stddef.h>
#include <stdint.h>

static inline size_t base64_size(size_t n)
{
    return (n + 2) / 3 * 4;
}

/* Returns the end of what it wrote. */
static inline uint8_t *base64_by_threes(uint8_t *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; n >= 3; p += 3, n -= 3) {
        uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        *out++ = (uint8_t)digits[bits >> 18];
        *out++ = (uint8_t)digits[bits >> 12 & 63];
        *out++ = (uint8_t)digits[bits >> 6 & 63];
        *out++ = (uint8_t)digits[bits & 63];
    }
    if (n) {
        uint32_t bits = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0);
        *out++ = (uint8_t)digits[bits >> 18];
        *out++ = (uint8_t)digits[bits >> 12 & 63];
        *out++ = n > 1 ? (uint8_t)digits[bits >> 6 & 63] : '=';
        *out++ = '=';
    }
    return out;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* The same. */
__attribute__((target("ssse3"))) static uint8_t *base64_by_shuffles(uint8_t *out, const uint8_t *p, size_t n)
{
    /* Each three bytes, twice over two words, so that a multiplication moves the four digits to their places. */
    const __m128i spread = _mm_set_epi8(10, 11, 9, 10, 7, 8, 6, 7, 4, 5, 3, 4, 1, 2, 0, 1);
    const __m128i add = _mm_setr_epi8('a' - 26, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52, '0' - 52,
        '0' - 52, '0' - 52, '+' - 62, '/' - 63, 'A', 0, 0); /* to a digit, by the range it is in */
    for (; n >= 16; p += 12, n -= 12, out += 16) {
        __m128i in = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p), spread);
        __m128i odd = _mm_mulhi_epu16(_mm_and_si128(in, _mm_set1_epi32(0x0fc0fc00)), _mm_set1_epi32(0x04000040));
        __m128i even = _mm_mullo_epi16(_mm_and_si128(in, _mm_set1_epi32(0x003f03f0)), _mm_set1_epi32(0x01000010));
        __m128i digit = _mm_or_si128(odd, even);
        __m128i range = _mm_subs_epu8(digit, _mm_set1_epi8(51));
        range = _mm_or_si128(range, _mm_and_si128(_mm_cmpgt_epi8(_mm_set1_epi8(26), digit), _mm_set1_epi8(13)));
        _mm_storeu_si128((__m128i *)out, _mm_add_epi8(_mm_shuffle_epi8(add, range), digit));
    }
    return base64_by_threes(out, p, n);
}

static inline uint8_t *base64_write(uint8_t *out, const uint8_t *p, size_t n)
{
    return __builtin_cpu_supports("ssse3") ? base64_by_shuffles(out, p, n) : base64_by_threes(out, p, n);
}
#else
static inline uint8_t *base64_write(uint8_t *out, const uint8_t *p, size_t n)
{
    return base64_by_threes(out, p, n);
}
#endif

#endif
