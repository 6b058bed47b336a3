"""What an SQL92 filter says: a row per rule and oddity (``broker-services.md`` §7.2, §7.3), and a
row per refusal.

``T F N``: true, false, NULL; ``!``: cannot be evaluated. Only T is a match. Properties are written
``a=5 b=x``.
"""

from __future__ import annotations

import pytest

from aiorocketmq.broker.filter.sql92 import SqlFilter
from aiorocketmq.remoting.protocol.message.properties import encode_properties
from aiorocketmq.remoting.protocol.sql92.evaluation import EvaluationError
from aiorocketmq.remoting.protocol.sql92.lexer import FilterError
from aiorocketmq.remoting.protocol.sql92.parser import parse

TABLE = """
-- equality with integers: the text is read as an integer of 32 bits
a = 5                                     | a=5            | T
a = 5                                     | a=6            | F
a = 5                                     |                | N   -- NULL on the left only
a = 5                                     | a=05           | T
a = 5                                     | a=+5           | T
a = 5                                     | a=-5           | F
a = 5                                     | a=5.5          | !
a = 5                                     | a=5.0          | !
a = 5                                     | a=x            | !
a = 5                                     | a=5x           | !
a = 5                                     | a=5L           | !
a = 5                                     | a=_5           | !
a = 5                                     | a=3000000000   | !
a = 5                                     | a=2147483647   | F
a = 5                                     | a=2147483648   | !
a = 5                                     | a=-2147483648  | F
a = 5                                     | a=-2147483649  | !
a = 0                                     | a=0            | T
a = 0                                     | a=-0           | T
a = 5l                                    | a=5            | T
a = 5L                                    | a=5            | T
a = 5L                                    | a=3000000000   | !
a = 0L                                    | a=0            | T
5 = a                                     | a=5            | T
5 = a                                     | a=6            | F
5 = a                                     | a=5.5          | !
5 = a                                     |                | F
-- integers of 64 bits, when the literal needs them
a = 3000000000                            | a=3000000000   | T
a = 3000000000                            | a=5            | F
a = 3000000000                            | a=9223372036854775807 | F
a = 3000000000                            | a=9223372036854775808 | !
a = 3000000000                            | a=5.5          | !
a = 2147483647                            | a=2147483648   | !
a = 2147483648                            | a=2147483649   | F
a = 9223372036854775807                   | a=9223372036854775807 | T
-- equality with doubles: everything that is a number fits
a = 5.5                                   | a=5.5          | T
a = 5.5                                   | a=5.50         | T
a = 5.5                                   | a=55e-1        | T
a = 5.5                                   | a=5            | F
a = 5.0                                   | a=5            | T
a = 5.                                    | a=5            | T
a = .5                                    | a=0.5          | T
a = 5e10                                  | a=50000000000  | T
a = 5E1                                   | a=50           | T
a = 5e+1                                  | a=50           | T
a = 5e-1                                  | a=.5           | T
a = 1.5                                   | a=1.5f         | T
a = 1.5                                   | a=1.5D         | T
a = 1.5                                   | a=NaN          | F
a = 1.5                                   | a=Infinity     | F
a = 1.5                                   | a=nan          | !
a = 1.5                                   | a=inf          | !
a = 1.5                                   | a=1_5          | !
a = 1.5                                   | a=x            | !
1.5 = a                                   | a=1.5          | T
1.5 = a                                   | a=x            | !
-- equality with text: as it stands
a = 'x'                                   | a=x            | T
a = 'x'                                   | a=X            | F
a = 'x'                                   | a=xx           | F
a = 'x'                                   |                | N
a = '5'                                   | a=5            | T
a = '5'                                   | a=05           | F
a = 'it''s'                               | a=it's         | T
a = ''                                    | a=x            | F
'x' = a                                   | a=x            | T
'x' = a                                   |                | F
a = b                                     | a=x b=x        | T
a = b                                     | a=1 b=01       | F
a = b                                     | a=1            | F
a = b                                     | b=1            | N
a = b                                     |                | T
a = a                                     | a=x            | T
A = 'x'                                   | a=x            | N
$a_1 = 'x'                                | $a_1=x         | T
_ = 'x'                                   | _=x            | T
-- equality with truth values: text is true when it is "true" in any case
a = TRUE                                  | a=true         | T
a = TRUE                                  | a=TrUe         | T
a = TRUE                                  | a=yes          | F
a = FALSE                                 | a=false        | T
a = FALSE                                 | a=yes          | T
a = FALSE                                 | a=true         | F
a = TRUE                                  |                | N
TRUE = a                                  | a=true         | !
FALSE = a                                 | a=false        | !
TRUE = a                                  |                | F
TRUE = TRUE                               |                | T
TRUE = FALSE                              |                | F
5 = TRUE                                  |                | F
5 <> TRUE                                 |                | T
'true' = TRUE                             |                | T
-- equality of literals and of parts
5 = 5                                     |                | T
5 = 5L                                    |                | T
5 = 5.0                                   |                | T
5 = '5'                                   |                | T
'5' = 5                                   |                | T
5 = '5.0'                                 |                | !
5.0 = '5'                                 |                | T
3000000000 = 3000000000.0                 |                | T
9007199254740993 = 9007199254740992.0     |                | T
'x' = 'x'                                 |                | T
(a > 1) = TRUE                            | a=2            | T
(a > 1) = TRUE                            | a=1            | F
(a > 1) = FALSE                           | a=1            | T
(a > 1) = (b > 1)                         | a=2 b=2        | T
(a > 1) = (b > 1)                         | a=1 b=2        | F
(a > 1) = (b > 1)                         |                | T
(a > 1) = b                               | a=2 b=true     | !
b = (a > 1)                               | a=2 b=true     | T
(a > 1) = 5                               | a=2            | F
a = 1 = TRUE                              | a=1            | T
a = 1 = TRUE                              | a=2            | F
-- inequality is NOT of equality
a <> 5                                    | a=5            | F
a <> 5                                    | a=6            | T
a <> 5                                    |                | N
5 <> a                                    |                | T
'x' <> a                                  |                | T
a <> 'x'                                  | a=y            | T
a <> 'x'                                  |                | N
a <> 5                                    | a=x            | !
a <> 1.5                                  | a=NaN          | T
a <> TRUE                                 | a=no           | T
a <> b                                    |                | F
-- order
a > 5                                     | a=6            | T
a > 5                                     | a=5            | F
a > 5                                     | a=4            | F
a > 5                                     |                | N
a > 5                                     | a=5.5          | !
a > 5                                     | a=10           | T
a >= 5                                    | a=5            | T
a >= 5                                    | a=4            | F
a >= 5                                    |                | N
a < 5                                     | a=4            | T
a < 5                                     | a=5            | F
a < 5                                     |                | N
a < 5                                     | a=-1           | T
a <= 5                                    | a=5            | T
a <= 5                                    | a=6            | F
a <= 5                                    |                | N
a > 5.5                                   | a=6            | T
a > 5.5                                   | a=5.4          | F
a > 5.5                                   | a=x            | !
a > 5.5                                   | a=NaN          | T
a < 5.5                                   | a=-Infinity    | T
5 > a                                     | a=4            | T
5 > a                                     |                | N
5 < a                                     | a=6            | T
5 <= a                                    | a=5            | T
5 >= a                                    | a=6            | F
5 > a                                     | a=4.5          | !
a > 3000000000                            | a=3000000001   | T
a > 3000000000                            | a=1            | F
a > b                                     | a=10 b=9       | T
a > b                                     | a=9 b=10       | F
a > b                                     | a=1.5 b=1      | T
a > b                                     | a=1 b=x        | !
a > b                                     | a=x b=y        | !
a > b                                     | a=1            | N
a > b                                     | b=1            | N
a < b                                     | a=-0.0 b=0.0   | T
a >= b                                    | a=1 b=1.0      | T
2 > 1                                     |                | T
2 > 1.5                                   |                | T
1 > 2                                     |                | F
-- signs
a > -5                                    | a=-4           | T
a > -5                                    | a=-6           | F
a = -5                                    | a=-5           | T
a = - 5                                   | a=-5           | T
a = - -5                                  | a=5            | T
a = +5                                    | a=5            | T
a = +-5                                   | a=-5           | T
a = -5.5                                  | a=-5.5         | T
a = -2147483648                           | a=-2147483648  | T
a = -2147483648                           | a=3000000000   | F
a = -2147483647                           | a=3000000000   | !
-a = 5                                    | a=-5           | N
-a > 5                                    | a=-6           | N
-a IS NULL                                | a=5            | T
a = -b                                    | a=5 b=-5       | F
a = -'x'                                  | a=x            | F
-TRUE IS NULL                             |                | T
+a = 5                                    | a=5            | T
+a                                        | a=true         | F
-- a property alone is text, and text is no truth value
a                                         | a=true         | F
a                                         | a=TRUE         | F
a                                         | a=x            | F
a                                         |                | N
a AND b                                   | a=true b=true  | F
a OR b                                    | a=true b=true  | F
(a)                                       | a=true         | F
TRUE                                      |                | T
FALSE                                     |                | F
NULL                                      |                | N
true                                      |                | T
nUlL                                      |                | N
-- NOT binds tighter than everything else
NOT a                                     | a=true         | T
NOT a                                     | a=x            | T
NOT a                                     |                | N
NOT a = 1                                 | a=1            | F
NOT a = 1                                 | a=2            | F
NOT a = 1                                 |                | N
NOT a <> 1                                | a=1            | T
NOT a = TRUE                              | a=1            | T
NOT a = TRUE                              |                | N
NOT (a = 1)                               | a=1            | F
NOT (a = 1)                               | a=2            | T
NOT (a = 1)                               |                | N
NOT (a = 1)                               | a=x            | !
NOT a IS NULL                             | a=1            | F
NOT a IS NULL                             |                | T
NOT (a IS NULL)                           | a=1            | T
NOT a AND b = 1                           | a=1 b=1        | T
NOT TRUE                                  |                | F
NOT FALSE                                 |                | T
NOT NULL                                  |                | N
NOT NOT TRUE                              |                | T
not false                                 |                | T
-- IS NULL is never NULL
a IS NULL                                 |                | T
a IS NULL                                 | a=1            | F
a IS NOT NULL                             |                | F
a IS NOT NULL                             | a=1            | T
a is not null                             | a=1            | T
5 IS NULL                                 |                | F
NULL IS NULL                              |                | T
NULL IS NOT NULL                          |                | F
(a > 1) IS NULL                           |                | T
(a > 1) IS NULL                           | a=1            | F
(a > 1) IS NULL                           | a=x            | !
a = 1 IS NULL                             |                | T
a = 1 IS NULL                             | a=2            | F
a IS NULL IS NULL                         |                | F
a IS NULL = FALSE                         | a=1            | T
-- IN
a IN ('x')                                | a=x            | T
a IN ('x', 'y')                           | a=y            | T
a IN ('x', 'y')                           | a=z            | F
a IN ('x', 'y')                           |                | N
a IN ('X')                                | a=x            | F
a IN ('5')                                | a=05           | F
a IN ('it''s')                            | a=it's         | T
a IN ('x', 'x')                           | a=x            | T
a NOT IN ('x', 'y')                       | a=x            | F
a NOT IN ('x', 'y')                       | a=z            | T
a NOT IN ('x', 'y')                       |                | N
a not in ('x')                            | a=y            | T
(a) IN ('x')                              | a=x            | T
+a IN ('x')                               | a=x            | T
a IN ('x') = TRUE                         | a=x            | T
a IN ('x') IS NULL                        |                | T
-- BETWEEN includes both ends
a BETWEEN 0 AND 3                         | a=0            | T
a BETWEEN 0 AND 3                         | a=3            | T
a BETWEEN 0 AND 3                         | a=2            | T
a BETWEEN 0 AND 3                         | a=4            | F
a BETWEEN 0 AND 3                         | a=-1           | F
a BETWEEN 0 AND 3                         |                | N
a BETWEEN 0 AND 3                         | a=2.5          | !
a BETWEEN 0 AND 3                         | a=x            | !
a between 0 and 3                         | a=1            | T
a BETWEEN 3 AND 3                         | a=3            | T
a BETWEEN 0 AND 3.5                       | a=3            | T
a BETWEEN 0.5 AND 3.5                     | a=3.4          | T
a BETWEEN -1 AND 1                        | a=-1           | T
a BETWEEN 3 AND -3                        | a=0            | F
a BETWEEN b AND c                         | a=2 b=1 c=3    | T
a BETWEEN b AND c                         | a=2 b=3 c=1    | F
a BETWEEN b AND c                         | a=2 b=1        | N
a BETWEEN b AND c                         | a=0 b=1        | F
5 BETWEEN a AND 9                         | a=1            | T
a NOT BETWEEN 0 AND 3                     | a=4            | T
a NOT BETWEEN 0 AND 3                     | a=-1           | T
a NOT BETWEEN 0 AND 3                     | a=0            | F
a NOT BETWEEN 0 AND 3                     | a=3            | F
a NOT BETWEEN 0 AND 3                     |                | N
a NOT BETWEEN b AND c                     | a=0 b=1        | T
a BETWEEN 0 AND 3 AND b = 1               | a=1 b=1        | T
a BETWEEN 0 AND 3 OR b = 1                | a=9 b=1        | T
a BETWEEN 0 AND 3 = TRUE                  | a=1            | T
-- AND
TRUE AND TRUE                             |                | T
TRUE AND FALSE                            |                | F
FALSE AND TRUE                            |                | F
TRUE AND NULL                             |                | N
NULL AND TRUE                             |                | N
FALSE AND NULL                            |                | F
NULL AND FALSE                            |                | F
NULL AND NULL                             |                | N
a = 1 AND b = 2                           | a=1 b=2        | T
a = 1 AND b = 2                           | a=1 b=3        | F
a > 1 AND b > 2                           | a=2            | N
a = 1 AND b = 2                           | a=2 b=x        | F   -- the right side is not looked at
a = 1 AND b = 2                           | a=x b=3        | !
a = 1 AND b = 2                           | a=1 b=x        | !
a > 1 AND b = 2                           | b=x            | !
-- OR
TRUE OR FALSE                             |                | T
FALSE OR TRUE                             |                | T
FALSE OR FALSE                            |                | F
TRUE OR NULL                              |                | T
NULL OR TRUE                              |                | T
FALSE OR NULL                             |                | N
NULL OR FALSE                             |                | N
NULL OR NULL                              |                | N
a = 1 OR b = 2                            | a=1 b=x        | T   -- the right side is not looked at
a = 1 OR b = 2                            | a=x b=2        | !
a = 1 OR b = 2                            | a=3 b=2        | T
a > 1 OR b > 2                            | b=3            | T
a > 1 OR b > 2                            | b=1            | N
-- precedence
TRUE OR FALSE AND FALSE                   |                | T
(TRUE OR FALSE) AND FALSE                 |                | F
FALSE AND FALSE OR TRUE                   |                | T
a = 1 OR a = 2 AND b = 1                  | a=1            | T
a > 1 = TRUE                              | a=2            | T
a > 1 AND b < 2 OR c = 'x'                | a=1 b=1 c=x    | T
NOT FALSE AND FALSE                       |                | F
NOT (FALSE AND FALSE)                     |                | T
-- space, comments, case of words
a=5                                       | a=5            | T
a/* between */=/**/5                      | a=5            | T
a = 5 -- to the end                       | a=5            | T
a>1and(b<2)                               | a=2 b=1        | T
a = 1 aNd b = 2 Or c = 3                  | c=3 a=1 b=2    | T
TAGS IN ('TagZ')                          | TAGS=TagZ      | T
(a > 5 AND b = 'x') OR TAGS IN ('TagZ')   | a=8 b=x        | T
(a > 5 AND b = 'x') OR TAGS IN ('TagZ')   | TAGS=TagZ      | T
(a > 5 AND b = 'x') OR TAGS IN ('TagZ')   | a=4 b=x        | N
"""

REFUSALS = """
-- nothing, and nothing whole
                                          | 1  | the expression is empty
   -- only a comment                      | 1  | the expression is empty
a =                                       | 4  | expected a property, a literal or '(', \
found the end
= 1                                       | 1  | expected a property, a literal or '('
a AND                                     | 6  | found the end
a AND AND b                               | 7  | found AND
OR a                                      | 1  | found OR
(a = 1                                    | 7  | expected ), found the end
a = 1)                                    | 6  | ) follows a complete expression
()                                        | 2  | found )
NOT                                       | 4  | found the end
a IS                                      | 5  | expected NULL, found the end
a IS NOT                                  | 9  | expected NULL
a IS 5                                    | 6  | expected NULL, found 5
a BETWEEN 1                               | 12 | expected AND
a BETWEEN 1 OR 2                          | 13 | expected AND, found OR
a BETWEEN (1) AND                         | 18 | found the end
a NOT b                                   | 3  | NOT follows a complete expression
-- what follows a complete expression (the original ignores it)
a > 1 garbage                             | 7  | garbage follows a complete expression
a = 1 b = 2                               | 7  | b follows
a = 010                                   | 6  | 10 follows a complete expression \
(numbers have no leading zeros)
a = 5x                                    | 6  | x follows
a = 5.5.5                                 | 8  | .5 follows
a + 1 = 2                                 | 3  | + follows
a = 1, b = 2                              | 6  | , follows
-- what this language does not have
a LIKE 'x%'                               | 3  | there is no operator LIKE
a like 'x%'                               | 3  | there is no operator like
a CONTAINS 'x'                            | 3  | there is no operator CONTAINS
a STARTSWITH 'x'                          | 3  | there is no operator STARTSWITH
a != 1                                    | 3  | write <> for 'not equal'
a == 1                                    | 4  | found =
a * 2 = 4                                 | 3  | there is no arithmetic
a / 2 = 4                                 | 3  | there is no arithmetic
a % 2 = 0                                 | 3  | there is no arithmetic
a = "x"                                   | 5  | text stands in single quotes
a = 1 & b = 2                             | 7  | write AND
a = 'x                                    | 5  | the text has no closing quote
a = 'x''                                  | 8  | the text has no closing quote
a = 1 /* no end                           | 7  | the comment has no end
a = ä                                     | 5  | unexpected 'ä'
a.b = 1                                   | 2  | unexpected '.'
-- NULL as an operand
a = NULL                                  | 5  | write IS NULL or IS NOT NULL
a <> NULL                                 | 6  | write IS NULL or IS NOT NULL
NULL = a                                  | 1  | write IS NULL
NULL = NULL                               | 1  | write IS NULL
a > NULL                                  | 5  | NULL is none
a BETWEEN NULL AND 3                      | 11 | NULL is none
a BETWEEN 1 AND NULL                      | 17 | NULL is none
-- order is for numbers
a > 'x'                                   | 5  | > compares numbers, 'x' is none
a >= '5'                                  | 6  | >= compares numbers
'x' < a                                   | 1  | < compares numbers
a <= TRUE                                 | 6  | TRUE is none
FALSE > a                                 | 1  | FALSE is none
a > (b = 1)                               | 6  | a comparison is none
(a > 1) > 2                               | 2  | a comparison is none
a > 1 > 2                                 | 1  | a comparison is none
a > NOT b                                 | 5  | a truth value is none
a BETWEEN 'x' AND 'y'                     | 11 | BETWEEN compares numbers
TRUE BETWEEN 1 AND 2                      | 1  | TRUE is none
a BETWEEN 1 AND 2 BETWEEN 3 AND 4         | 1  | a comparison is none
a BETWEEN 3 AND 1                         | 11 | the first must not be greater
a NOT BETWEEN 3 AND 1                     | 15 | the first must not be greater
a BETWEEN 1.5 AND 1                       | 11 | the first must not be greater
-- truth values
5                                         | 1  | 5 is neither true nor false
'x'                                       | 1  | 'x' is neither true nor false
-5                                        | 1  | -5 is neither true nor false
-a                                        | 1  | -a is neither true nor false
NOT 5                                     | 5  | 5 is neither true nor false
NOT -a                                    | 5  | -a is neither true nor false
a AND 5                                   | 7  | 5 is neither true nor false
'x' OR a = 1                              | 1  | 'x' is neither true nor false
TRUE = 5                                  | 6  | TRUE cannot be compared with 5
-- IN
a IN ()                                   | 7  | IN lists texts in single quotes, not )
a IN 'x'                                  | 6  | expected (
a IN ('x'                                 | 10 | expected )
a IN ('x' 'y')                            | 11 | expected )
a IN ('x',)                               | 11 | not )
a IN (1, 2)                               | 7  | IN lists texts in single quotes, not 1
a IN (b)                                  | 7  | not b
a IN (NULL)                               | 7  | not NULL
'x' IN ('x')                              | 1  | IN asks for a property on its left, not 'x'
5 IN ('5')                                | 1  | IN asks for a property
-a IN ('x')                               | 1  | IN asks for a property on its left, not -a
(a = 1) IN ('x')                          | 2  | IN asks for a property
a IN ('x') IN ('y')                       | 1  | IN asks for a property
TRUE NOT IN ('x')                         | 1  | IN asks for a property
-- numbers out of range
a = 9223372036854775808                   | 5  | does not fit into 64 bits
a = -9223372036854775808                  | 6  | does not fit into 64 bits
a = 99999999999999999999                  | 5  | does not fit into 64 bits
a = 0.0                                   | 5  | write 0 for zero
a > .0                                    | 5  | write 0 for zero
a = 0e5                                   | 5  | write 0 for zero
a = 1e-400                                | 5  | write 0 for zero
a = 1e400                                 | 5  | the largest double
"""


def rows(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if "|" in line]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def properties(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split())


TRUTH = rows(TABLE)
OUTCOMES = {"T": True, "F": False, "N": None}


def test_there_are_rows_enough_and_none_twice() -> None:
    assert len(TRUTH) >= 200
    assert len({(expression, given) for expression, given, _ in TRUTH}) == len(TRUTH)


@pytest.mark.parametrize(("expression", "given", "outcome"), TRUTH)
def test_truth(expression: str, given: str, outcome: str) -> None:
    values = properties(given)
    outcome = outcome[0]
    compiled = parse(expression)
    if outcome == "!":
        with pytest.raises(EvaluationError):
            compiled.run(values.get)
    else:
        assert compiled.run(values.get) is OUTCOMES[outcome]
    assert SqlFilter(expression).matches(encode_properties({"UNIQ_KEY": "0A", **values})) is (
        outcome == "T"
    )


@pytest.mark.parametrize(("expression", "position", "reason"), rows(REFUSALS))
def test_refusals(expression: str, position: str, reason: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(expression)
    assert reason in refused.value.reason
    assert refused.value.position == int(position)
    assert str(refused.value) == f"position {position}: {refused.value.reason}"
