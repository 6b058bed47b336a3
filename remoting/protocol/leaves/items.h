/* Items of a batch body out of columns (batch_items.py). */
#ifndef AIOROCKETMQ_ITEMS_H
#define AIOROCKETMQ_ITEMS_H

#include "bytes.h"

enum { ITEMS_HEAD = 20, ITEMS_OVERHEAD = 22, ITEMS_MOST_PIECES = 16 };

/* With ends: the text of a row behind the prefix, if there is any. With a number that is not negative: the digits of that and the
 * row's. Otherwise the prefix alone. */
typedef struct {
    const uint8_t *prefix;
    int64_t prefix_size;
    const int32_t *ends;
    const uint8_t *data;
    int64_t number;
} items_piece;

/* The first text that does not lie in so many bytes; -1: all do. */
static inline int64_t items_first_outside(const int32_t *ends, int64_t count, int64_t length)
{
    for (int64_t row = 0; row < count; row++)
        if (ends[row] < 0 || ends[row] > ends[row + 1] || ends[row + 1] > length)
            return row;
    return -1;
}

static inline int items_digits(uint64_t number)
{
    int digits = 1;
    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

static inline int64_t items_piece_size(const items_piece *piece, int64_t row)
{
    int64_t size = piece->ends ? piece->ends[row + 1] - piece->ends[row] : 0;
    if (piece->ends)
        return size ? piece->prefix_size + size : 0;
    return piece->prefix_size + (piece->number < 0 ? 0 : items_digits((uint64_t)(piece->number + row)));
}

static inline int64_t items_properties_size(const items_piece *pieces, int count, int64_t row)
{
    int64_t size = 0;
    for (int number = 0; number < count; number++)
        size += items_piece_size(pieces + number, row);
    return size;
}

static inline uint8_t *items_put_piece(const items_piece *piece, int64_t row, uint8_t *to)
{
    int64_t size = piece->ends ? piece->ends[row + 1] - piece->ends[row] : 0;
    if (piece->ends && !size)
        return to;
    if (piece->prefix_size)
        memcpy(to, piece->prefix, (size_t)piece->prefix_size);
    to += piece->prefix_size;
    if (size)
        memcpy(to, piece->data + piece->ends[row], (size_t)size);
    else if (piece->number >= 0) {
        uint64_t number = (uint64_t)(piece->number + row);
        size = items_digits(number);
        for (int64_t digit = size; digit--; number /= 10)
            to[digit] = (uint8_t)('0' + number % 10);
    }
    return to + size;
}

/* Where it ends. */
static inline uint8_t *items_put(const items_piece *body, int32_t flag, const items_piece *pieces, int count, int64_t row, uint8_t *to)
{
    int32_t size = body->ends[row + 1] - body->ends[row];
    uint8_t *properties = to + ITEMS_OVERHEAD + size, *end = properties;
    if (size)
        memcpy(to + ITEMS_HEAD, body->data + body->ends[row], (size_t)size);
    for (int number = 0; number < count; number++)
        end = items_put_piece(pieces + number, row, end);
    bytes_write_u32(to, (uint32_t)(end - to));
    memset(to + 4, 0, 8);
    bytes_write_u32(to + 12, (uint32_t)flag);
    bytes_write_u32(to + 16, (uint32_t)size);
    properties[-2] = (uint8_t)((end - properties) >> 8);
    properties[-1] = (uint8_t)(end - properties);
    return end;
}

#endif
