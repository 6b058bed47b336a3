/* The typed header of a request, found in its bytes: JSON with its keys in any order, or ROCKETMQ.
 *
 * Nothing is made here: numbers are read, texts are spans. Whatever is not as almost all headers are (a number out of its
 * range, a value that is no text, a \ in a key, a surrogate, a key of the envelope twice) gets 0 for an answer: the general
 * rule (serialization.py, wire.py) then says what it is, or what is wrong with it. What is accepted here it has to read alike.
 */
#ifndef AIOROCKETMQ_HEADERS_H
#define AIOROCKETMQ_HEADERS_H

#include "bytes.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { HEADER_FIELDS = 32, HEADER_SLOTS = 128, HEADER_CODES = 1024 };
enum { HEADER_TEXT, HEADER_NUMBER, HEADER_FLAG };
enum { HEADER_PAIRS = 64 };

typedef struct {
    const uint8_t *key;
    uint32_t key_size;
    int kind;
    int required;
    int64_t low, high;
} header_field;

/* The fields of a Record; slots: number of a field plus 1 by the hash of its key, linear probing. */
typedef struct {
    void *owner;
    uint32_t count;
    uint32_t required; /* a bit per field */
    header_field fields[HEADER_FIELDS];
    uint8_t slots[HEADER_SLOTS];
} header_plan;

typedef struct {
    const uint8_t *text;
    uint32_t size;
    int64_t number; /* also of a flag */
} header_value;

typedef struct {
    int64_t code, flag, opaque, version;
    uint32_t given; /* a bit per field */
    header_value values[HEADER_FIELDS];
    uint8_t *scratch; /* room for texts without their escapes, as many bytes as the header has */
} header_found;

typedef struct {
    const uint8_t *key, *text;
    uint32_t key_size, size;
} header_pair;

/* All fields of a header that has a plan, known or not. */
typedef struct {
    uint32_t count;
    header_pair pairs[HEADER_PAIRS];
} header_pairs;

/* The plans by code, NULL where there is none. */
typedef const header_plan *header_plans[HEADER_CODES];

static inline const header_plan *header_plan_of(const header_plans *plans, int64_t code)
{
    return code >= 0 && code < HEADER_CODES ? (*plans)[code] : NULL;
}

static inline uint32_t header_hash(const uint8_t *key, size_t size)
{
    return (uint32_t)(size * 7 + key[0] * 31 + key[size - 1] * 5 + key[size >> 1]) & (HEADER_SLOTS - 1);
}

/* 0: there is no room or the key is there already. */
static inline int header_plan_add(header_plan *plan, header_field field)
{
    if (plan->count == HEADER_FIELDS || field.key_size == 0)
        return 0;
    uint32_t slot = header_hash(field.key, field.key_size);
    while (plan->slots[slot])
        slot = (slot + 1) & (HEADER_SLOTS - 1);
    plan->fields[plan->count] = field;
    plan->required |= (uint32_t)field.required << plan->count;
    plan->slots[slot] = (uint8_t)++plan->count;
    return 1;
}

/* The number of the field of this key, -1 for none. */
static inline int header_field_of(const header_plan *plan, const uint8_t *key, size_t size)
{
    for (uint32_t slot = header_hash(key, size); plan->slots[slot]; slot = (slot + 1) & (HEADER_SLOTS - 1)) {
        const header_field *field = &plan->fields[plan->slots[slot] - 1];
        if (field->key_size == size && field->key[0] == key[0] && (size == 1 || memcmp(field->key, key, size) == 0))
            return plan->slots[slot] - 1;
    }
    return -1;
}

/* 0: there is no room. Without pairs nothing is kept. */
static inline int header_keep(header_pairs *pairs, const uint8_t *key, size_t key_size, const uint8_t *text, size_t size)
{
    if (pairs == NULL)
        return 1;
    if (pairs->count == HEADER_PAIRS)
        return 0;
    header_pair *pair = &pairs->pairs[pairs->count++];
    pair->key = key;
    pair->key_size = (uint32_t)key_size;
    pair->text = text;
    pair->size = (uint32_t)size;
    return 1;
}

static inline int header_before(const header_pair *one, const header_pair *other)
{
    uint32_t shorter = one->key_size < other->key_size ? one->key_size : other->key_size;
    int order = memcmp(one->key, other->key, shorter);
    return order ? order < 0 : one->key_size < other->key_size;
}

/* By their keys; 0: two have the same one. */
static inline int header_sort(header_pairs *pairs)
{
    for (uint32_t at = 1; at < pairs->count; at++) {
        header_pair pair = pairs->pairs[at];
        uint32_t to = at;
        for (; to > 0 && header_before(&pair, &pairs->pairs[to - 1]); to--)
            pairs->pairs[to] = pairs->pairs[to - 1];
        if (to > 0 && !header_before(&pairs->pairs[to - 1], &pair))
            return 0;
        pairs->pairs[to] = pair;
    }
    return 1;
}

static inline int header_is(const uint8_t *text, size_t size, const char *word, size_t word_size)
{
    return size == word_size && memcmp(text, word, word_size) == 0;
}
#define HEADER_IS(text, size, word) header_is(text, size, word, sizeof(word) - 1)

/* -?[0-9]{1,18}, as far as it goes; returns where it ends, NULL where there is no such number. */
static inline const uint8_t *header_digits(const uint8_t *p, const uint8_t *end, int64_t *number)
{
    int64_t value = 0;
    const uint8_t *first = p < end && *p == '-' ? p + 1 : p, *most = end - first > 18 ? first + 18 : end, *at = first;
    for (unsigned digit; at < most && (digit = *at - '0') <= 9; at++)
        value = value * 10 + digit;
    *number = first > p ? -value : value;
    return at > first ? at : NULL;
}

/* The number of a field: returns where its text ends, NULL if it cannot be told here. */
static inline const uint8_t *header_number(const header_plan *plan, int at, const uint8_t *text, const uint8_t *end, header_found *found)
{
    int64_t *number = &found->values[at].number;
    text = header_digits(text, end, number);
    found->given |= 1u << at;
    return *number >= plan->fields[at].low && *number <= plan->fields[at].high ? text : NULL;
}

/* A value as text becomes the field's. 1 if it can be told here what it is. */
static inline int header_take(const header_plan *plan, int at, const uint8_t *text, size_t size, header_found *found)
{
    const header_field *field = &plan->fields[at];
    header_value *value = &found->values[at];
    if (field->kind == HEADER_NUMBER)
        return header_number(plan, at, text, text + size, found) == text + size;
    if (field->kind == HEADER_TEXT) {
        if (found->given >> at & 1 && !bytes_is_ascii(value->text, value->size))
            return 0; /* of equal keys the last one counts, but all have to be UTF-8, which is not looked at here */
        value->text = text;
        value->size = (uint32_t)size;
    } else if (HEADER_IS(text, size, "true"))
        value->number = 1;
    else if (HEADER_IS(text, size, "false"))
        value->number = 0;
    else
        return 0;
    found->given |= 1u << at;
    return 1;
}

/* --- JSON: every function returns where it ends, NULL for what it cannot tell ------------------------------------------ */

static inline const uint8_t *json_blank(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* The first byte from p on that is a quote, a backslash or a control character; end if there is none. `high` tells of bytes
 * over 127 on the way. */
static inline const uint8_t *json_plain(const uint8_t *p, const uint8_t *end, int *high)
{
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    while (end - p >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)p);
        __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                                       _mm_cmpeq_epi8(_mm_min_epu8(bytes, control), bytes));
        unsigned found = (unsigned)_mm_movemask_epi8(special), over = (unsigned)_mm_movemask_epi8(bytes);
        if (found) {
            int at = __builtin_ctz(found);
            *high |= (int)(over & ((1u << at) - 1));
            return p + at;
        }
        *high |= (int)over;
        p += 16;
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20)
        *high |= *p++ & 0x80;
    return p;
}

static inline int json_hex(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* From a backslash to behind its escape; what it means goes to *out. Halves of surrogates are left to the general rule. */
static inline const uint8_t *json_escape(const uint8_t *p, const uint8_t *end, uint8_t **out)
{
    static const uint8_t meanings[128] = {
        ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t',
    };
    uint8_t *to = *out;
    if (end - p < 2)
        return NULL;
    if (p[1] != 'u') {
        if (p[1] > 127 || !meanings[p[1]])
            return NULL;
        *to++ = meanings[p[1]];
        *out = to;
        return p + 2;
    }
    if (end - p < 6)
        return NULL;
    int a = json_hex(p[2]), b = json_hex(p[3]), c = json_hex(p[4]), d = json_hex(p[5]);
    if ((a | b | c | d) < 0)
        return NULL;
    int code = a << 12 | b << 8 | c << 4 | d;
    if (code < 0x80)
        *to++ = (uint8_t)code;
    else if (code < 0x800) {
        *to++ = (uint8_t)(0xC0 | code >> 6);
        *to++ = (uint8_t)(0x80 | (code & 63));
    } else if (code >= 0xD800 && code < 0xE000)
        return NULL;
    else {
        *to++ = (uint8_t)(0xE0 | code >> 12);
        *to++ = (uint8_t)(0x80 | (code >> 6 & 63));
        *to++ = (uint8_t)(0x80 | (code & 63));
    }
    *out = to;
    return p + 6;
}

/* A text from behind its opening quote to behind the closing one. Without escapes the span is where it stands, else it is
 * written to *scratch, which moves on. */
static inline const uint8_t *json_text(const uint8_t *p, const uint8_t *end, const uint8_t **text, size_t *size, int *high, uint8_t **scratch)
{
    const uint8_t *from = p;
    p = json_plain(p, end, high);
    if (p < end && *p == '"') {
        *text = from;
        *size = (size_t)(p - from);
        return p + 1;
    }
    uint8_t *out = *scratch;
    for (*text = out; p < end && *p == '\\'; p = json_plain(p, end, high)) {
        memcpy(out, from, (size_t)(p - from));
        out += p - from;
        from = p = json_escape(p, end, &out);
        if (p == NULL)
            return NULL;
    }
    if (p >= end || *p != '"')
        return NULL;
    memcpy(out, from, (size_t)(p - from));
    out += p - from;
    *size = (size_t)(out - *text);
    *scratch = out;
    return p + 1;
}

/* A key, the colon behind it and what is blank around that. Keys are plain ASCII without escapes, or nothing we can tell. */
static inline const uint8_t *json_key(const uint8_t *p, const uint8_t *end, const uint8_t **key, size_t *size)
{
    int high = 0;
    if (p >= end || *p != '"')
        return NULL;
    *key = ++p;
    while (p < end && p - *key < 2 && *p >= '0' && *p < 0x80 && *p != '\\') /* most keys of a send have one letter */
        p++;
    if (p >= end || *p != '"')
        p = json_plain(p, end, &high);
    *size = (size_t)(p - *key);
    if (p >= end || *p != '"' || high)
        return NULL;
    p = json_blank(p + 1, end);
    return p < end && *p == ':' ? json_blank(p + 1, end) : NULL;
}

/* Behind a member: at the next one, or behind the closing brace (`*last`). */
static inline const uint8_t *json_next(const uint8_t *p, const uint8_t *end, int *last)
{
    p = json_blank(p, end);
    if (p >= end)
        return NULL;
    *last = *p == '}';
    if (*last)
        return p + 1;
    return *p == ',' ? json_blank(p + 1, end) : NULL;
}

static inline const uint8_t *json_null(const uint8_t *p, const uint8_t *end)
{
    return end - p >= 4 && memcmp(p, "null", 4) == 0 ? p + 4 : NULL;
}

/* The members of extFields, from behind the opening brace. Without a plan they are only looked at. */
static inline const uint8_t *json_fields(const uint8_t *p, const uint8_t *end, const header_plan *plan, header_found *found, header_pairs *pairs)
{
    int last = 0;
    if (plan == NULL)
        pairs = NULL;
    p = json_blank(p, end);
    if (p < end && *p == '}')
        return p + 1;
    while (!last) {
        const uint8_t *key, *text;
        size_t key_size, size;
        uint8_t *scratch = found->scratch;
        int high = 0;
        if ((p = json_key(p, end, &key, &key_size)) == NULL || p >= end)
            return NULL;
        int at = plan != NULL && key_size ? header_field_of(plan, key, key_size) : -1;
        if (at >= 0 && *p == '"' && plan->fields[at].kind == HEADER_NUMBER) {
            text = p + 1;
            if ((p = header_number(plan, at, text, end, found)) == NULL || p >= end || *p++ != '"')
                return NULL;
            if (!header_keep(pairs, key, key_size, text, (size_t)(p - 1 - text)))
                return NULL;
        } else if (*p == '"') {
            if ((p = json_text(p + 1, end, &text, &size, &high, &found->scratch)) == NULL)
                return NULL;
            if (at >= 0 ? !header_take(plan, at, text, size, found) : plan != NULL && high)
                return NULL; /* whether a text of nobody's is UTF-8 is not looked at here */
            if (!header_keep(pairs, key, key_size, text, size))
                return NULL;
            if (at < 0 && pairs == NULL)
                found->scratch = scratch;
        } else if ((p = json_null(p, end)) == NULL)
            return NULL;
        else if (at >= 0 && found->given >> at & 1)
            return NULL; /* a null takes back what an equal key in front of it said */
        if ((p = json_next(p, end, &last)) == NULL)
            return NULL;
    }
    return p;
}

/* A whole number of 32 bits, as JSON writes it. */
static inline const uint8_t *json_number(const uint8_t *p, const uint8_t *end, int64_t *number)
{
    const uint8_t *from = p;
    if ((p = header_digits(p, end, number)) == NULL || *number < INT32_MIN || *number > INT32_MAX)
        return NULL;
    if (p < end && (*p == '.' || *p == 'e' || *p == 'E' || (*p >= '0' && *p <= '9')))
        return NULL;
    if (*from == '-' ? from[1] == '0' : *from == '0' && p > from + 1)
        return NULL; /* 00 is no number, and -0 a decimal one to some */
    return p;
}

/* The header of a request whose code has a plan. Returns the plan, NULL for anything else. */
static inline const header_plan *header_of_json(const uint8_t *p, size_t size, const header_plans *plans, header_found *found, header_pairs *pairs)
{
    const uint8_t *end = p + size, *fields = NULL;
    const header_plan *plan = NULL;
    unsigned seen = 0, which;
    int last = 0;
    found->code = -1;
    found->flag = found->opaque = found->version = 0;
    found->given = 0;
    p = json_blank(p, end);
    if (p >= end || *p != '{')
        return NULL;
    p = json_blank(p + 1, end);
    while (!last) {
        const uint8_t *key, *text;
        size_t key_size;
        int high = 0;
        if ((p = json_key(p, end, &key, &key_size)) == NULL || p >= end)
            return NULL;
        if (HEADER_IS(key, key_size, "code")) {
            which = 1;
            p = json_number(p, end, &found->code);
            if (p != NULL && (plan = header_plan_of(plans, found->code)) == NULL)
                return NULL;
        } else if (HEADER_IS(key, key_size, "flag")) {
            which = 2;
            p = json_number(p, end, &found->flag);
        } else if (HEADER_IS(key, key_size, "opaque")) {
            which = 4;
            p = json_number(p, end, &found->opaque);
        } else if (HEADER_IS(key, key_size, "version")) {
            which = 8;
            p = json_number(p, end, &found->version);
        } else if (HEADER_IS(key, key_size, "extFields")) {
            which = 16;
            if (*p == '{') {
                fields = plan == NULL ? p + 1 : NULL; /* the code comes later: then once more */
                p = json_fields(p + 1, end, plan, found, pairs);
            } else
                p = json_null(p, end);
        } else { /* language, remark and what nobody knows */
            which = 0;
            uint8_t *scratch = found->scratch;
            p = *p == '"' ? json_text(p + 1, end, &text, &key_size, &high, &scratch) : json_null(p, end);
            if (high)
                return NULL;
        }
        if (p == NULL || seen & which || (p = json_next(p, end, &last)) == NULL)
            return NULL;
        seen |= which;
    }
    if (json_blank(p, end) != end || plan == NULL || found->flag & 1)
        return NULL;
    if (fields != NULL && json_fields(fields, end, plan, found, pairs) == NULL)
        return NULL;
    return (found->given & plan->required) == plan->required ? plan : NULL;
}

/* --- ROCKETMQ (the layout is at serialization.py) ---------------------------------------------------------------------- */

static inline const header_plan *header_of_binary(const uint8_t *p, size_t size, const header_plans *plans, header_found *found, header_pairs *pairs)
{
    const uint8_t *end = p + size;
    found->code = -1;
    if (size < 21 || bytes_read_u32(p + 13) != 0 || bytes_read_u32(p + 17) != size - 21)
        return NULL;
    found->code = (int16_t)bytes_read_u16(p);
    found->version = (int16_t)bytes_read_u16(p + 3);
    found->opaque = (int32_t)bytes_read_u32(p + 5);
    found->flag = (int32_t)bytes_read_u32(p + 9);
    found->given = 0;
    const header_plan *plan = header_plan_of(plans, found->code);
    if (plan == NULL || found->flag & 1)
        return NULL;
    for (p += 21; p < end;) {
        if (end - p < 2)
            return NULL;
        size_t key_size = bytes_read_u16(p);
        const uint8_t *key = p + 2;
        if (key_size > INT16_MAX || (size_t)(end - key) < key_size + 4)
            return NULL;
        const uint8_t *text = key + key_size + 4;
        size_t text_size = bytes_read_u32(text - 4);
        if ((size_t)(end - text) < text_size)
            return NULL;
        p = text + text_size;
        if (!key_size || !text_size)
            continue; /* null to the original: such a pair is absent */
        int at = header_field_of(plan, key, key_size);
        if (at >= 0 ? !header_take(plan, at, text, text_size, found) : !(bytes_is_ascii(key, key_size) && bytes_is_ascii(text, text_size)))
            return NULL; /* whether it is UTF-8 is not looked at here */
        if (!header_keep(pairs, key, key_size, text, text_size))
            return NULL;
    }
    return (found->given & plan->required) == plan->required ? plan : NULL;
}

#endif
