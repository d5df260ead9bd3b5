"""Learners' vocabulary: maps names, products and words to the symbols of a plan without head numbers.

`subject` parses a target such as `q_1`, `\\Omega_2`, `QK^T`, `softmax(S)V`, `W_1^Q`; `topics` parses prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from glassformer.exercises.expression import (
    Array,
    Call,
    Constant,
    Expression,
    Index,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Quotient,
    Root,
    Several,
    Struck,
    Sum,
    Transpose,
    walk,
)

SCORES = ("S", "Su", "QKt", "KtQ")
RAW = ("QKt", "KtQ", "S")
WEIGHTS = ("A",)
NORMS = ("L", "N", "LF", "NF")


def _table(rows: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {normalize("NFC", word): bases for words, bases in rows.items() for word in words.split()}


# lower-case name → possible symbols, the most likely first
NAMES = _table({
    "q ω query queries": ("Q",),
    "k κ key keys": ("K",),
    "v ν value values": ("V",),
    "s score scores logit logits similarity sim": SCORES,
    "dot dotproduct": RAW,
    "ŝ s̃": ("Su", "S"),
    "a α alpha w weight weights attn softmax probabilities probs": ("A",),
    "p": ("P", "A", "PE", "X"),
    "e ε exp exponential exponentials": ("E", "S"),
    "z": ("Z", "H", "O"),
    "sum sums denominator denominators σ": ("Z", "var"),
    "h head heads": ("H", "C"),
    "context": ("H", "O"),
    "c concat concatenation concatenated": ("C", "H"),
    "o out output outputs result results final multihead mha": ("O", "H"),
    "y": ("Y", "O", "H", "L"),
    "attention": ("A", "H", "O"),
    "r residual": ("R", "RF"),
    "μ mu mean mittelwert moyenne media": ("mu", "muF"),
    "var variance varianz varianza": ("var", "varF"),
    "x̂ n": ("N", "NF"),
    "l ln norm layernorm": NORMS,
    "g relu": ("G",),
    "f ffn ff": ("F", "F1"),
    "hidden": ("F1",),
    "x token tokens input inputs embedding embeddings": ("X", "X0"),
    "pe positions position": ("PE",),
    "memory m": ("Y",),
    "γ gamma": ("gamma",),
    "β beta": ("beta",),
    "i image": ("I",),
    "patches patch": ("P",),
    "emd cost": ("W", "Wc"),
    "total": ("total",),
    "t plan": ("T",),
    "d": ("D",),
})  # fmt: skip
# parameters, not results: recognised and ignored
PARAMETERS = frozenset(
    ["d", "d_k", "d_v", "d_q", "d_m", "d_h", "d_{model}", "d_{head}", "dk", "dv", "n", "n_{heads}", "num_{heads}",
     "h", "N", "T", "L", "m", "k", "ε", "β", "beta"]
)  # fmt: skip
_LABELS = ("head", "h", "masked", "scaled", "final")  # words among indices
_FUNCTIONS = {
    "softmax": ("A",), "exp": ("E",), "concat": ("C",), "attention": ("H", "O"), "multihead": ("O",), "relu": ("G",),
    "layernorm": NORMS, "var": ("var", "varF"), "mean": ("mu", "muF"), "ffn": ("F",), "mlp": ("F",), "sum": ("Z",),
}  # fmt: skip
# the product of two things is a third
_PRODUCTS = {
    ("X", "WQ"): "Q", ("X", "WK"): "K", ("X", "WV"): "V", ("Y", "WK"): "K", ("Y", "WV"): "V", ("A", "V"): "H",
    ("C", "WO"): "O", ("H", "WO"): "O", ("P", "WE"): "X", ("E", "V"): "H",
}  # fmt: skip


_LETTERS = {
    "gamma": "γ", "beta": "β", "mu": "μ", "muF": "μ_F", "var": "σ^2", "varF": "σ_F^2", "RF": "R_F", "NF": "N_F",
    "LF": "L_F", "Wc": "W_c", "nh": "n_h", "nw": "n_w", "PE": "PE",
}  # fmt: skip


def label_of(symbol: str) -> str:
    """Return the label that the reader assigns to a symbol: Q_1 for Q1, Q_1K_1^T for QKt1, W_{Q,1} for WQ1."""
    if symbol in _LETTERS:
        return _LETTERS[symbol]
    base = symbol.rstrip("0123456789")
    number = symbol[len(base) :]
    index = f"_{number}" if len(number) == 1 else f"_{{{number}}}" if number else ""
    if base == "QKt":
        return f"Q{index}K{index}^T"
    if base == "KtQ":
        return f"K{index}^TQ{index}"
    if base == "Su":
        return f"S\u0302{index}"  # Ŝ, with its accent as a combining character
    if len(base) == 2 and base[0] in "Wb":
        return f"{base[0]}_{{{base[1]},{number}}}" if number else f"{base[0]}_{base[1]}"
    return base + index


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a target: possible symbols, and indices that may name a head, a token or a cell.

    `instead`: alternative indices; q_1 k_1^T is the cell 1,1 or the matrix of head 1. `query`: which of two indices is
    that of the query, if the names of the vectors tell it: q_1 k_2 and k_2 q_1 are the same score.
    """

    bases: tuple[str, ...]
    indices: tuple[Index, ...] = ()
    upper: tuple[Index, ...] = ()
    transposed: bool = False
    instead: tuple[Index, ...] | None = None
    query: int | None = None


def subject(term: Expression) -> Subject | None:
    """Return the subject of a term; None if it is unknown."""
    match term:
        case Struck(inner):
            return subject(inner)
        case Name():
            return _name(term)
        case Transpose(inner):
            found = subject(inner)
            return None if found is None else Subject(found.bases, found.indices, found.upper, not found.transposed)
        case Product(factors):
            return _product(factors)
        case Several(items):
            return _product(items) if len(items) == 2 and any(isinstance(i, Transpose) for i in items) else None
        case Array(rows, flat) if flat and len(rows[0]) == 2 and any(isinstance(i, Transpose) for i in rows[0]):
            return _product(rows[0])
        case Quotient(top, bottom):
            return _quotient(top, bottom)
        case Power(Constant("e"), exponent):
            raised = subject(exponent)
            return Subject(("E",), raised.indices, raised.upper) if raised is not None else None
        case Power(Name(name="σ") as sigma, _):
            after = "F" if "F" in sigma.indices else ""
            return Subject((f"var{after}",), tuple(i for i in sigma.indices if i != "F"))
        case Call("entry", (inner,), over):
            found = subject(inner)
            indices = tuple(int(i) if i.isdigit() else i for i in over.split(","))
            upper = (*found.indices, *found.upper) if found is not None else ()
            return None if found is None else Subject(found.bases, indices, upper, found.transposed)
        case Call("abs", (Sum((first, Negative(second))),)):  # |F − G|
            sides = [found.bases[0] for part in (first, second) if (found := subject(part)) is not None]
            return Subject(("D",)) if sorted(sides) == ["F", "G"] else None
        case Call(function, arguments) if (ends := _ends(arguments)) and function.lower() in NAMES:
            letters = [part.name.lower() if isinstance(part, Name) else "" for part in arguments]
            query = letters.index("q") if sorted(letters) == ["k", "q"] else None
            return Subject(NAMES[function.lower()], ends, query=query)  # score(q_1, k_2), a(1, 2)
        case Call(function, arguments, over) if function in _FUNCTIONS:
            argument = subject(arguments[0]) if arguments and function in ("softmax", "exp", "sum") else None
            ends = argument.indices if argument is not None else ()
            ends = tuple(i for i in ends if i != over) if function == "sum" else ends
            return Subject(_FUNCTIONS[function], ends, argument.upper if argument is not None else ())
        case Sum(terms):
            return _sum(terms)
        case _:
            return None


def _ends(arguments: tuple[Expression, ...]) -> tuple[Index, ...]:
    """Return the indices of two arguments that are numbers or names, as in (q_1, k_2) or (q, k_2); else nothing."""
    found: list[Index] = []
    for argument in arguments:
        if isinstance(argument, Number) and argument.places is None and argument.value.denominator == 1:
            found.append(int(argument.value))
        elif isinstance(argument, Name) and len(argument.indices) == 1:
            found.append(argument.indices[0])
        elif isinstance(argument, Name) and argument.name == "q":
            found.append("q")
    return tuple(found) if len(found) == len(arguments) == 2 else ()


def _name(term: Name) -> Subject | None:
    lower = normalize("NFC", term.name.lower())
    indices, upper = list(term.indices), list(term.upper)
    indices, upper = ([i for i in part if str(i).lower() not in _LABELS] for part in (indices, upper))
    if term.name in ("W", "w", "b") or (len(term.name) == 2 and term.name[0] in "Wb"):
        letter = next((i for i in (*indices, *upper) if isinstance(i, str) and i.lower() in "qkvoe"), "")
        letter = letter or (term.name[1:] if len(term.name) == 2 else "")
        if letter:
            low, high = (tuple(i for i in part if i != letter) for part in (indices, upper))
            return Subject((("b" if term.name[0] == "b" else "W") + letter.upper(),), low, high)
        if term.name in ("W", "b"):
            return Subject((f"{term.name}{indices[0]}",)) if indices in ([1], [2]) else None
    if "F" in indices and lower in ("μ", "n", "l", "r"):
        indices.remove("F")
        return Subject(({"μ": "muF"}.get(lower, term.name + "F"),), tuple(indices))
    if lower in ("h", "o") and [str(w).lower() for w in upper] in (["o"], ["out"]):
        upper = []
    bases = NAMES.get(lower)
    return Subject(bases, tuple(indices), tuple(upper)) if bases else None


def _product(factors: tuple[Expression, ...]) -> Subject | None:
    """Return the subject of a product: Q Kᵀ (also with a garbled Q), A V, X W_Q, a number times any of them."""
    scaled = any(isinstance(f, Number | Root | Quotient) for f in factors)
    parts = [f for f in factors if not isinstance(f, Number | Root | Constant | Quotient)]
    quotients = [f for f in factors if isinstance(f, Quotient)]
    if len(parts) == 1 and quotients:  # (1/√d) S, or e/Z · V
        inner, share = subject(parts[0]), subject(quotients[0])
        if inner is not None and inner.bases == ("V",) and share is not None and share.bases == ("A",):
            return Subject(("H",), inner.indices)
        return _scaled(inner)
    if len(parts) != 2:
        return None
    first, second = (subject(part) for part in parts)
    known = [s for s in (first, second) if s is not None]
    key = next((s for s in known if s.bases == ("K",)), None)
    others = {s.bases[0] for s in known if s is not key}
    if key is not None and not others & ({"X", "WK", "WQ"} if key.transposed else {"X", "WK", "WQ", "A", "V"}):
        return _scores(first, second, key, scaled)
    if first is None or second is None:
        return None
    made = next((_PRODUCTS[a, b] for a in first.bases for b in second.bases if (a, b) in _PRODUCTS), None) or next(
        (_PRODUCTS[b, a] for a in first.bases for b in second.bases if (b, a) in _PRODUCTS), None
    )
    heads = next((s for s in known if s.indices or s.upper), known[0])
    return Subject((made,), heads.indices, heads.upper) if made else None


def _scores(first: Subject | None, second: Subject | None, key: Subject, scaled: bool) -> Subject:
    """Distinguish scores: q₁·k₂ is a cell, Q₁K₁ᵀ a head's matrix."""
    bases = ("S", "Su") if scaled else RAW
    pair = (*(first.indices if first else ()), *(second.indices if second else ()))
    ends = (first.indices if first else (), second.indices if second else ())
    other = second if first is key else first
    query = int(first is key) if other is not None and other.bases == ("Q",) and len(pair) == 2 else None
    if ends[0] == ends[1] and len(pair) == 2:
        return Subject(bases, pair, key.upper, instead=key.indices)
    if first is not None and first.bases == ("Q",) and not ends[0] and len(ends[1]) == 1:  # q·k_1, of the only query
        return Subject(bases, ("q", *ends[1]), key.upper, instead=key.indices)
    if ends[0] == ends[1] or not (ends[0] and ends[1]):
        return Subject(bases, key.indices, key.upper)
    return Subject(bases, pair, key.upper, query=query)


def _scaled(inner: Subject | None) -> Subject | None:
    if inner is None or inner.bases[0] not in SCORES:
        return None
    return Subject(("S", "Su"), inner.indices, inner.upper, query=inner.query)


def _quotient(top: Expression, bottom: Expression) -> Subject | None:
    if isinstance(top, Power | Call) and (found := subject(top)) is not None and found.bases[0] == "E":
        return Subject(("A",), found.indices, found.upper)
    found = subject(top)
    if found is not None and found.bases[0] == "E":
        return Subject(("A",), found.indices, found.upper)
    divides = any(isinstance(part, Root | Number) or (isinstance(part, Name) and part.name.startswith("d"))
                  for part in walk(bottom))  # fmt: skip
    return _scaled(found) if divides else None


def _sum(terms: tuple[Expression, ...]) -> Subject | None:
    found = [subject(part) for part in terms]
    bases = {base for part in found if part is not None for base in part.bases}
    if len(found) != 2 or None in found:
        return None
    indices = found[0].indices if found[0] is not None else ()
    if "PE" in bases:
        return Subject(("X",), indices)
    return Subject(("R",), indices) if "X" in bases and {"O", "H"} & bases else None


_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"concat|side by side", ("C",)),
    (r"\bfinal|\bw_?o\b|w\^o|multi-?head", ("O",)),
    (r"outputs?\b|\bresult|multipl\w* (?:it |them )?(?:by|with) ?(?:(?:the )?v|[:,]|$)|times v", ("H", "O")),
    (r"soft(?:arg)?max|weights?\b|attention(?! (?:scores?|outputs?|heads?|logits?|layer|mechanism|function))", ("A",)),
    (r"exponent|\bexp\b(?!\()", ("E",)),
    (r"\bweighted (?:sum|average|combination|mean|values?)", ("H", "O")),
    (r"(?<!row )(?<!column )(?<!weight )(?<!weighted )(?<![.\w])sums?\b(?! (?:up )?to\b| of (?:the )?weigh)", ("Z",)),
    (r"scal(?:e|ed|ing)\b|divid", ("S", "Su")),
    (r"mask", ("S",)),
    (r"(?<!raw )(?<!unscaled )scores?\b|confusion|similarit|logits", SCORES),
    (r"dot product|\braw\b|unscaled|\bq ?[·*@]? ?k(?:\^?\{?\\?t(?:op)?\b|ᵀ|⊤)", RAW),
    (r"\bquer", ("Q",)),
    (r"\bkeys?\b", ("K",)),
    (r"(?<!weighted )\bvalues?\b(?! for)", ("V",)),
    (r"(?<!weighted )\bmeans?\b", ("mu", "muF")),
    (r"varianc", ("var", "varF")),
    (r"normali[sz]|layer ?norm", NORMS),
    (r"feed-?\s?forward|\bffn\b|\bmlp\b", ("F", "F1")),
    (r"\b(?:with|times|and|mit|und|mal) (?:gamma|γ)", ("L", "LF")),
    (r"\btimes (?:beta|β)", ("S",)),
    (r"hidden (?:layer|units|activations?)|(?:before|without)(?: the)? relu", ("F1",)),
    (r"residual|\b(?:input|x) ?\+ (?:the )?(?:attention|output|o\b)|\+ (?:the )?input", ("R", "RF")),
    (r"(?<!before )(?<!before the )(?<!without )relu", ("G",)),
    (r"patch", ("P", "n")),
    (r"\btokens\b(?!\s*\d)|input", ("X", "X0")),
)  # fmt: skip


_FOREIGN = {
    r"anfrage|requête|consulta\b": ("Q",),
    r"schlüssel|chiav[ei]|\bclés?\b|\bclaves?\b": ("K",),
    r"\bwerte?\b|\bvalor[ei]s?\b|valeurs?": ("V",),
    r"punteggi|punktzahl|puntuaci|puntaje|skalarprodukt|produits? scalaire|prodott[oi] scalar": SCORES,
    r"skalier|divis[eoi]": ("S", "Su"),
    r"maskier|masqué|mascherat|enmascarad": ("S",),
    r"gewicht|aufmerksamkeit|\bpes[io]\b|\bpoids\b|\bpesos\b|attenzione|atención": ("A",),
    r"ausgabe|ergebnis|sorties?\b|uscit[ae]|salidas?|risultat|résultat": ("H", "O"),
    r"mittelwert|moyenne|\bmedia\b": ("mu", "muF"),
    r"varianz|varianza": ("var", "varF"),
    r"normier|normalisier": NORMS,
    r"residuum|résidu|residuo": ("R", "RF"),
}  # fmt: skip
_TOPICS = tuple((re.compile(pattern), bases) for pattern, bases in (*_WORDS, *_FOREIGN.items()))


@lru_cache(maxsize=4096)
def topics(words: str) -> tuple[str, ...]:
    """Return the symbols that prose mentions, the last mentioned first."""
    low = words.lower()
    found = [(match.start(), bases) for pattern, bases in _TOPICS for match in pattern.finditer(low)]
    ordered = [base for _, bases in sorted(found, key=lambda item: -item[0]) for base in bases]
    return tuple(dict.fromkeys(ordered))
