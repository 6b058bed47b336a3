/* Numbers and texts as text and as bytes, for frames by template. Every function returns the end of what it wrote. */
#ifndef AIOROCKETMQ_ANSWERS_H
#define AIOROCKETMQ_ANSWERS_H

#include <stdint.h>
#include <string.h>

enum { DECIMAL_BYTES = 20, HEX_BYTES = 16, RAW_BYTES = 4, ESCAPE_BYTES = 6 };

/* As "%d" writes it: DECIMAL_BYTES at most. */
static inline uint8_t *write_decimal(uint8_t *out, int64_t number)
{
    uint8_t digits[DECIMAL_BYTES], *at = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--at = (uint8_t)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    size_t size = (size_t)(digits + sizeof digits - at);
    memcpy(out, at, size);
    return out + size;
}

/* As "%016X" writes it. */
static inline uint8_t *write_hex(uint8_t *out, int64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *out++ = (uint8_t)"0123456789ABCDEF"[(uint64_t)number >> shift & 15];
    return out;
}

/* Four bytes, the highest first. */
static inline uint8_t *write_raw(uint8_t *out, uint32_t number)
{
    *out++ = (uint8_t)(number >> 24);
    *out++ = (uint8_t)(number >> 16);
    *out++ = (uint8_t)(number >> 8);
    *out++ = (uint8_t)number;
    return out;
}

/* UTF-8 as it stands in a text of JSON: ESCAPE_BYTES for a byte at most. */
static inline uint8_t *write_json(uint8_t *out, const uint8_t *text, size_t size)
{
    static const uint8_t letters[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    for (const uint8_t *end = text + size; text < end; text++) {
        uint8_t byte = *text;
        if (byte >= ' ' && byte != '"' && byte != '\\') {
            *out++ = byte;
            continue;
        }
        *out++ = '\\';
        if (byte >= ' ')
            *out++ = byte;
        else if (byte < sizeof letters && letters[byte])
            *out++ = letters[byte];
        else {
            memcpy(out, "u00", 3);
            out[3] = (uint8_t)('0' + (byte >> 4));
            out[4] = (uint8_t)"0123456789abcdef"[byte & 15];
            out += 5;
        }
    }
    return out;
}

#endif
