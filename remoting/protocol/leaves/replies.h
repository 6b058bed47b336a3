/* The header of a good answer, found in its JSON as headers.h finds that of a request: what is not as almost all are gets 0. */
#ifndef AIOROCKETMQ_REPLIES_H
#define AIOROCKETMQ_REPLIES_H

#include "headers.h"

/* `found->scratch` needs as many bytes as the header. */
static inline int reply_of_json(const uint8_t *p, size_t size, const header_plan *plan, header_found *found)
{
    const uint8_t *end = p + size;
    unsigned seen = 0, which;
    int last = 0;
    found->code = found->flag = found->opaque = found->version = 0;
    found->given = 0;
    p = json_blank(p, end);
    if (p >= end || *p != '{')
        return 0;
    p = json_blank(p + 1, end);
    while (!last) {
        const uint8_t *key, *text;
        size_t key_size;
        int high = 0;
        if ((p = json_key(p, end, &key, &key_size)) == NULL || p >= end)
            return 0;
        if (HEADER_IS(key, key_size, "code")) {
            which = 1;
            p = json_number(p, end, &found->code);
        } else if (HEADER_IS(key, key_size, "flag")) {
            which = 2;
            p = json_number(p, end, &found->flag);
        } else if (HEADER_IS(key, key_size, "opaque")) {
            which = 4;
            p = json_number(p, end, &found->opaque);
        } else if (HEADER_IS(key, key_size, "version")) {
            which = 8;
            p = json_number(p, end, &found->version);
        } else if (HEADER_IS(key, key_size, "extFields") && *p == '{') {
            which = 16;
            p = json_fields(p + 1, end, plan, found, NULL);
        } else { /* remark, language and what nobody knows */
            which = 0;
            uint8_t *scratch = found->scratch;
            p = *p == '"' ? json_text(p + 1, end, &text, &key_size, &high, &scratch) : json_null(p, end);
        }
        if (p == NULL || high || seen & which || (p = json_next(p, end, &last)) == NULL)
            return 0;
        seen |= which;
    }
    if (json_blank(p, end) != end || !(seen & 1) || found->code != 0 || !(found->flag & 1))
        return 0;
    return (found->given & plan->required) == plan->required;
}

#endif
