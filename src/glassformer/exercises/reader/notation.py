"""Rewrites notations as the usual ones: q(1) as q_{1}, ⟨q1, k2⟩ as q1·k2, ⟨1, 2⟩ as (1, 2), Output 1 as Output_{1}."""

from __future__ import annotations

import re

_CALLED = re.compile(r"(?<![\w\\])([qkvsazcohQKVSAZCOH])\((\d{1,2})\)(?=\s*[=≈:])")
_VECTOR = r"([qk]_?\{?\d{1,2}\}?)"
_INNER = re.compile(rf"(?:<|⟨|\\langle)\s*{_VECTOR}\s*,\s*{_VECTOR}\s*(?:>|⟩|\\rangle)(?=\s*[=≈])")
# q1·k2 = 5 -> 5/1.414 = 3.54: after the arrow comes another quantity
_ARROW = re.compile(r"(=[ \t]*[-+−]?\d[\d./]*)[ \t]*(?:->|→|⇒|=>|\\(?:to|rightarrow|Rightarrow)\b)[ \t]*(?=[-+−]?\d)")
_TOKEN = re.compile(r"\b((?:token|word|position)\s+\d{1,2})\s*=(?=\s*[\[(]\s*[-+−.\d])", re.I)

# Output 1 = 0.25·(1, 0) + …
_NUMBERED = re.compile(
    r"\b(output|query|key|value|context|result)\s+(?:(?:of|for)\s+)?(?:token\s+)?(\d{1,2})[ \t]*(?==)", re.I
)
# weight of key 1: 7.39/10.11 = 0.73, of the only query
_OF_KEY = re.compile(r"\b(weight|score)s?\s+(?:of|for|on|to)\s+key\s+(\d{1,2})\s*[:=](?=\s*[\d.]+\s*[/·*])", re.I)

# 17/11/2026, 14:04 - Marta: q1 = (1, 2)
_CHAT = re.compile(
    r"^\[?\d{1,4}[/.-]\d{1,2}[/.-]\d{2,4},?[ ]\d{1,2}:\d\d(?::\d\d)?(?:[ ]?[AP]M)?\]?(?:[ ]-)?[ ][^:\n]{1,40}:[ ]", re.M
)
_SCANNED = re.compile(r"\bQ ?KT(?=\s*=)")  # the superscript of QKᵀ is lost in scans
_BINOMIAL = re.compile(r"\\[dt]?binom\{([^{}\n]{1,40})\}\{([^{}\n]{1,40})\}")  # a column of two numbers

MINUS_INFINITY = re.compile(
    r"(?:(?<![\w.])[-−–]|(?<=[^\n\w.])[-−–][ ]|\b(?:minus|negative|neg)[ ])(?:(?:np|math|torch|numpy)\.)?"
    r"(?:(?:inf(?:ini)?ty|inf|oo)\b|\\infty(?![A-Za-z])|∞)|float\(['\"]-inf['\"]\)", re.I
)  # fmt: skip
# = 115 605 504
_SPACED = re.compile(r"(?<=[=≈] )\d{1,3}(?:[ \u00a0\u202f]\d{3}){2,3}(?=[ \t]*(?:$|[^\s\d,.;|&\])]))", re.M)
_THOUSANDS = re.compile(r"(?<![\w.,^{])\d{1,3}(?:,\d{3})+\.\d+(?![\d,])|(?<![\w.,^{])\d{1,3}(?:,\d{3}){2,}(?![\d,.])")

# ## Token 1, or \section{Token 1}: what follows is about it
_HEADED = re.compile(
    r"^((?:#{1,6}[ \t]|\\(?:sub)*(?:section|paragraph)\*?\{)[^\n]*?\b(?:token|query|position|word)[ \t]+\d{1,2})"
    r"(?=[ \t]*\}?[ \t]*$)", re.M | re.I
)
_HAT = re.compile(r"([A-Za-z])\u0302")  # x̂
_RULE = re.compile(r"={4,}")  # ======== head 0 ========
_GAP = re.compile(r"(?<=\d),\s*\\q?quad\s*(?=[-−]?\d)")  # 22.7,\quad 77.5
_ANGLES = re.compile(r"⟨(\s*[-+−]?[\d.]+%?(?:\s*,\s*[-+−]?[\d.]+%?)+\s*)⟩")  # the vector ⟨1, −1⟩
_INDEXED = re.compile(r"(?<![\w\\])([A-Za-zα])_(\d{1,2}),([ijk])(?![\w.])")  # a_1,j
_DIVIDED = re.compile(r"\((?:\s*[-+−]?[\d.]+%?\s*\|)+\s*[-+−]?[\d.]+%?\s*\)")  # the vector (1 | −1)
_BARS = re.compile(r"(?<=[)\]])[ \t]+\|[ \t]+(?=[^\W\d_]_?\{?\d{1,2}\}?\s*[=≈])")  # q1 = (1, 1) | k1 = (2, 0)


def plain_numbers(text: str) -> str:
    """Rewrite −∞ in words and signs as -∞, and 1,234.5, 1,234,567 or = 1 234 567 without separators of thousands."""
    text = MINUS_INFINITY.sub("-∞", text)
    text = _SPACED.sub(lambda found: re.sub(r"\s", "", found.group()), text)
    return _THOUSANDS.sub(lambda found: found.group().replace(",", ""), text)


_OF_TOKEN = re.compile(r"(?<![\w\\])([A-Za-z])\((?:x|token )_?(\d{1,2})\)(?=\s*[=≈])")  # h(x1) =
_WIKI_BOLD = re.compile(r"'''([^'\n]+)'''")
# "Sheet 1 - K (= X * W_K)" over a table
_SHEET = re.compile(r"^([A-Z][a-z]+ \d{1,2}) [-–—] (?=[A-Za-z])", re.M)
_PRODUCT_ABOVE = re.compile(r"(\b[A-Z]['′]?)[ \t]*\(=[^()\n\d=]*\)[ \t]*:?(?=\n\s{0,4}?(?:\||[^\n]*\t))")
# running text whose line is broken after a relation: "…, k_2 = (0, 1) and v_1 =" and "(0, 2), v_2 = …" on the next line
_BROKEN = re.compile(r"^([^\n$\\|]*[,;)][^\n$\\|]*[=≈])[ \t]*\n[ \t]*(\((?:[^()\n]*)\)[^\n]*)$", re.M)


def usual_notation(text: str) -> str:
    """Rewrite the notations of a document; lines stay lines."""
    text = _BROKEN.sub(r"\1 \2\n", text)
    text = _RULE.sub(lambda found: " " * len(found.group()), _HAT.sub(r"\\hat{\1}", text))
    text = _GAP.sub(", ", text)
    text = _WIKI_BOLD.sub(r"\1", _OF_TOKEN.sub(r"\1_{\2}", text))
    text = _PRODUCT_ABOVE.sub(r"\1 =", _SHEET.sub(r"\1: ", text))
    text = _CALLED.sub(r"\1_{\2}", _SCANNED.sub("QK^T", _CHAT.sub("", text)))
    text = _INDEXED.sub(r"\1_{\2,\3}", _HEADED.sub(r"\1:", text))
    text = _DIVIDED.sub(lambda found: found.group().replace("|", ","), text)
    text = _BARS.sub(" ; ", _ANGLES.sub(r"(\1)", _INNER.sub(r"\1·\2", text)))
    text = _ARROW.sub(r"\1 ; ", text)
    text = _BINOMIAL.sub(r"\\begin{pmatrix} \1 \\\\ \2 \\end{pmatrix}", text)
    text = _OF_KEY.sub(r"\1_{q,\2} =", _NUMBERED.sub(r"\1_{\2} ", text))
    return _TOKEN.sub(r"\1:", text)
