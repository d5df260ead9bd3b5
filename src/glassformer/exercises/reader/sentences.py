"""Numbers in sentences: "the query of the first token is (3, 0)", "cat attends to sat with 0.61".

A line of prose is split into nouns (query, weight, output, …), tokens of the exercise ("token 2", "the second token",
"“cat”"), values and prepositions; each value is assigned to the noun and the tokens around it. A line is only taken if
every value in it is assigned; otherwise it is left to the reader of formulas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from glassformer.exercises.expression import Index, Name

# name of a quantity → the nouns for it in English, German, French, Italian, Spanish and Polish
NOUNS = {
    "dotproduct": r"dot[ -]?products?|raw scores?|unscaled scores?|skalarprodukte?|prodotti? scalar[ei]"
    r"|produits? scalaires?|productos? escalar(?:es)?|iloczyny? skalarn[ey]",
    "score": r"scores?|divid(?:e|ed|ing)|scaled|similarit(?:y|ies)|logits?|energ(?:y|ies)"
    r"|punteggi[o]?|punktzahlen?|ähnlichkeit(?:en)?|puntuaci(?:ón|ones)|puntajes?",
    "weight": r"(?:attention )?weights?|attention(?! (?:scores?|outputs?|heads?|logits?|energ))|soft(?:arg)?max"
    r"|attends?|probabilit(?:y|ies)|pes[io]\b|attenzione|(?:aufmerksamkeits)?gewichte?|aufmerksamkeit|poids|pesos?|atención"
    r"|wag[ai]",
    "exponential": r"exponentials?|exponentiale|exponentielles?|esponenziali|exponenciales|exps?(?=\s*(?:->|→|⇒|:))",
    "sum": r"(?:sum|total|denominator|normali[sz]er|summe|nenner|somme|somma|suma)\b(?! to)",
    "patch": r"patch",
    "nh": r"patches (?:down|per column|vertically|from top to bottom)",
    "nw": r"patches (?:across|per row|horizontally|from left to right)",
    "mean": r"means?(?= of| for|:| is| =)|mittelwerte?|moyennes?",
    "layernorm": r"layer ?norm\w*|normiert\w*|normalisiert\w*|normali[sz]ed(?= tokens?| vectors?| outputs?|:)",
    "n": r"number of patches",
    "ffn": r"feed-?\s?forward(?: network| layer)?|ffn|mlp",
    "hidden": r"hidden (?:layer|units|activations?)|before (?:the )?relu",
    "relu": r"(?<!before )(?<!before the )relu",
    "residual": r"residuals?(?: sum| connection)?",
    "variance": r"variances?|varianz(?:en)?|varianze",
    "query": r"quer(?:y|ies)|anfragen?|requêtes?|consultas?|zapytani[ae]",
    "key": r"keys?|schlüssel|chiav[ei]|clés?|claves?|klucze?",
    "value": r"values?|werte?|valor[ei]s?|valeurs?|wartości",
    "output": r"(?:attention )?outputs?|results?|contexts?(?: vectors?)?|uscit[ae]|ausgaben?|sorties?"
    r"|salidas?|ergebnisse?|wyjści[ae]",
}  # fmt: skip
_OF_NAME = {"q": "query", "k": "key", "v": "value", "s": "score", "a": "weight", "α": "weight", "z": "output",
            "o": "output", "c": "output", "x": "", "t": ""}  # fmt: skip
_COUNTED = (
    "first 1st ersten erste primo prima premier première primer primera",
    "second 2nd zweiten zweite secondo seconda deuxième segundo segunda",
    "third 3rd dritten dritte terzo terza troisième tercer tercera",
    "fourth 4th vierten vierte quarto quarta quatrième cuarto cuarta",
    "fifth 5th fünften fünfte quinto quinta cinquième",
    "sixth 6th",
)
_ORDINALS = {word: number for number, words in enumerate(_COUNTED, 1) for word in words.split()}
_TOKEN = r"tokens?|jetons?|words?|positions?|rows?|pos\.|zeile|riga|ligne|fila|parola|mot|wort|palabra|input"
_ROW = re.compile(r"rows?|zeile|riga|ligne|fila", re.I)
_NUMBER = r"[-+−]?(?:\d+(?:\.\d+)?|\.\d+)(?:/\d+)?(?:\s?%)?|[-−]∞"
_SEPARATOR = r"\s*(?:[,;|/&]|\band\b|\bund\b|\bet\b|\be\b|\by\b)\s*(?:and\s+)?|\s+"
_VERBOSE = {name: words.replace(" ", r"\ ") for name, words in NOUNS.items()}
_NOUN = "|".join(rf"(?P<noun_{name}>\b(?:{words})\b)" for name, words in _VERBOSE.items())
_TOKENS = re.compile(
    rf"""
    (?P<vector>[\[(⟨<{{]\s*(?:{_NUMBER})(?:(?:{_SEPARATOR})(?:{_NUMBER}))+\s*[\])⟩>}}](?:\^?(?:T\b|⊤|ᵀ))?)
  | (?P<single>\(\s*(?:[≈~=]\s*)?(?P<inside>[-−]?\d*\.\d+(?:\s?%)?|\d+\s?%)\s*\))
  | (?P<keyed>\(\s*(?:{_VERBOSE["key"]}|tokens?|words?|positions?)\s*(?P<key>\d{{1,2}})\s*\))
  | (?P<aside>\([^()]*(?:\([^()]*\)[^()]*)*\))
  | (?P<kind>{_TOKEN}|patch|{_VERBOSE["query"]}|{_VERBOSE["key"]}|{_VERBOSE["value"]}|{_VERBOSE["output"]})
      \s*(?:vectors?\s*)?(?:no\.?|nr\.?|number|\#|n°)?\s*(?:[xtqkv]_?)?(?P<index>\d{{1,3}})(?![\d.,]*\d|\s*[%·*×/+-])
  | (?P<name>(?<![\w\\])(?:out|[qkvsaαzocxt])_?\{{?(?P<of>\d{{1,2}})\}}?(?![\w.(\[]))
  | (?P<symbol>(?<=\bof\ )(?-i:[QKVSAHO])\b(?=\s*[:=]|\s+is\b))
  | (?P<ordinal>\b(?:{"|".join(_ORDINALS)})\b)
      (?:\s+(?:(?:encoder|decoder|input|output|source|target)\s+)?(?:token|jeton|word|position|parola|mot|wort|palabra)\b
      |(?:\s+(?:(?:encoder|decoder|input|source|target)\s+)?(?:{_TOKEN}|{_VERBOSE["query"]}|{_VERBOSE["key"]}|{_VERBOSE["value"]}))?
      (?=\s*(?:[,:;(\[=]|is\b|are\b|the\b|with\b|and\b|attends?\b|pays?\b|gives?\b|has\b|puts?\b|looks?\b|partage\b|\.(?:\s|$)|$)))
  | (?P<itself>\b(?:it|them)sel(?:f|ves)\b|\bsich\ selbst\b|\bse\ stess[oa]\b|\b(?:lui|elle)-même\b|\bsí\ mism[oa]\b)
  | (?P<quoted>["“”„«‘`'](?P<label>[^\W\d_]{{1,20}})["“”»’`'])
  | (?P<called>\btoken\s+(?!(?:the|is|are|has|gets|becomes?|with|and|to|of|in|at|on|we|i|this|then|attends?|pays?)\b)
      (?P<word>[^\W\d_]{{1,20}})\b)
  | (?P<number>(?<![\w.])(?:{_NUMBER})(?:\s*±\s*(?:{_NUMBER}))?(?![\w]))
  | {_NOUN}
  | (?P<verb>\b(?:pays?|looks?|gives?|assigns?|puts?|places?|spends?|focus(?:es)?
      |guarda|schaut|achtet|regarde|partage|mira|presta|dedica|atiende|accorde|prête|assegna|schenkt|widmet)\b)
  | (?P<toward>\b(?:to|towards?|on|onto|at|sur|auf|[aà]\ la)\b|->|→|⇒)
  | (?P<with>\b(?:with|by|mit|avec|con|al)\b|:|=|≈|\b(?:is|are|become|becomes|gives|at)\b)
  | (?P<between>\b(?:and|between)\b)
  | (?P<end>[.!?](?=\s|$))
  | (?P<plain>[^\W\d_]+(?:['’-][^\W\d_]+)*)
    """,
    re.X | re.I,
)
_PAIR = re.compile(rf"[\s*+•-]*[\"“]?([^\W\d_]+)[\"”]?\s+[-–—/&×·]\s+[\"“]?([^\W\d_]+)[\"”]?\s*[:=]\s*({_NUMBER})\s*")
_VECTOR_NAME = re.compile(r"(?:^|\s)(?:out|[^\W\d_])_?\{?\d{1,2}\}?$")  # k1, the keys k1
_SUPPOSED = re.compile(
    r"\b(?:if|suppose|assume|imagine|for (?:example|instance)|e\.g\.|such as|could|would|might|say|means|paper"
    r"|zum beispiel|z\. ?b\.|per esempio|par exemple|por ejemplo|between 0|at (?:least|most)|dimensions?"
    r"|shape|size|rounded|decimals?|digits)\b", re.I
)  # fmt: skip
_SLASHES = re.compile(rf"(?<![\w.])(?:{_NUMBER})(?:\s/\s(?:{_NUMBER})){{2,}}(?![\w])")  # 0.25 / 0.06 / 0.69
_SEVERAL = re.compile(rf"\b(?:{_TOKEN})\s+\d+\s*(?:,|and|&)\s*\d+\b(?!\.\d)", re.I)  # tokens 2 and 4
# the mark of a list item, and the scale in words: "divided by the square root of 2"
_ASIDES = re.compile(
    r"\b(?:step|part|schritt|passo|étape|paso)\s+\d{1,2}\b\s*[:.)]?|^\s*(?:>\s*)*(?:[-*+•#]+\s+|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]\s+)"
    r"|(?:(?<=\bdivided by )|(?<=\bdividing by )|(?<=\bdivide by )|(?<=\bscaled by ))\d+(?:\.\d+)?(?=[\s,:.]|$)"
    r"|(?:√\s?|\bsqrt\s?|\b(?:square )?root of |\bwurzel (?:aus )?|\bradice (?:quadrata )?di )\(?\d+\)?"
    r"(?:\s*≈\s*\d+\.\d+)?", re.I
)  # fmt: skip
_SENTENCE_ENDS = re.compile(  # also between columns: scores: 0; 1; 2  sum: 3
    r"(?<=[^\W_][\w)\]][.!?])\s+(?=[A-ZÀ-Þ])|(?<=[)\]][.!?])\s+(?=[A-ZÀ-Þ])|(?<=[\d)\]])\s{2,}(?=[^\W\d_]{3,}\s?:)"
)
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,2}|_{1,2})([^\W\d_]{1,20})\1(?![\w*])")  # the token *cat*
_VALUES = ("vector", "number", "list")
_PUTS = re.compile(r"pay|look|put|place|spend|focus", re.I)  # attention
_DECLARED = re.compile(
    r"\b(?:tokens?|words?|sentence|inputs?)\s*(?:are|is|:|=)\s*([^\n.(]+)"
    r"|\btokens ((?:[^\W\d_]+, ?){1,20}[^\W\d_]+)", re.I
)  # fmt: skip
_QUOTED_TOKENS = re.compile(
    r"\b(?:tokens|words)\b[^.\n\"“'‘]{0,30}((?:[\"“'‘][^\W\d_]+[\"”'’][,;]?\s*(?:(?:and|und|et|e|y)\s+)?){2,12})", re.I
)
_LISTED = re.compile(r"[^\W\d_]+(?:,\s*(?:and\s+)?[^\W\d_]+|\s+and\s+[^\W\d_]+){1,11}")
_USUAL = frozenset(("the", "a", "an", "it", "is", "to", "of", "and", "i", "we", "in", "on", "at", "for", "with", "that",
                    "this", "be", "are", "key", "query", "value", "token", "row"))  # fmt: skip
_ARROW = re.compile(r"->|→|⇒|=>")
_STAGES = {"exponential": r"exp\b|exponentiate", "weight": r"normali[sz]e"}  # the verbs of a heading of a chain
_OPERATOR = re.compile(r"[·*×⋅+^√∑\\{}]|\d\s*/\s*\d*\.\d|\d\s-\s\d")
_NESTED = re.compile(r"[\[(]\s*[\[(]\s*[-+−.\d]")  # [[1, 2], [3, 4]]
_SCALARS = ("sum", "mean", "variance")  # one number for each token
_ROWS_OF_QUERIES = ("score", "dotproduct", "weight", "exponential", "sum", "output")
_OF_PAIRS = ("weight", "score", "dotproduct")  # one number for each query and key
_OPERANDS = {  # the dot products of the queries and the keys, the sum of the exponentials
    "dotproduct": ("query", "key"), "score": ("query", "key"), "sum": ("exponential",)
}  # fmt: skip
_SPECIFIC = ("ffn", "hidden", "relu", "residual", "layernorm")
_RELATIVE = frozenset(("which", "that", "this", "so", "and", "then", "was", "che", "qui", "que"))
PRONOUNS = ("it", "es", "il", "elle", "esso")
_OF = ("for", "of", "für", "von", "di", "de", "per", "pour", "para")
_ARTICLES = frozenset(("the", "a", "der", "die", "das", "il", "la", "le", "el", "of", "in", "vector", "token", "word"))


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value in a sentence and what it is the value of: `weight` of tokens 1 and 2 is 0.47."""

    start: int
    end: int
    target: Name
    value: str


@dataclass(slots=True)
class _Part:
    kind: str
    text: str
    start: int
    end: int
    index: Index | None = None  # the token that it names
    noun: str = ""


@dataclass(slots=True)
class ParagraphState:
    """The state of a paragraph: the noun and the token last mentioned, which the next lines may omit."""

    noun: str = ""
    subject: Index | None = None
    goes_on: bool = False  # whether the sentence of the last line goes on in the next
    ended: bool = False  # whether the last line had values: the next empty line then ends the paragraph
    stages: tuple[str, ...] = ()  # of a heading "dot products → divide by √2 → exp → normalise"
    names: frozenset[str] = frozenset()  # words that the document declares as its tokens

    def line(self, text: str) -> list[Assigned]:
        """Return the values of one line of prose; an empty list if any of them cannot be assigned."""
        if not text.strip():
            self.goes_on = False
            if self.ended:
                self.noun, self.subject, self.ended = "", None, False
            return []
        text = _EMPHASIS.sub(lambda found: f"“{found[2]}”".center(len(found.group())), text)
        text = _ASIDES.sub(lambda found: " " * len(found.group()), text)
        text = _SLASHES.sub(lambda found: found.group().replace("/", ","), text)
        pair = _PAIR.fullmatch(text) if self.noun in _OF_PAIRS else None
        if pair is not None and self.names >= {pair[1].lower(), pair[2].lower()}:  # cat - sat: 0.61
            self.ended = True
            target = Name(self.noun, (pair[1].lower(), pair[2].lower()))
            return [Assigned(pair.start(3), pair.end(3), target, _cell(pair[3]))]
        before = (self.noun, self.subject)
        parts = [self.as_token(part) for part in _parts(text)]
        self.ended = any(char.isdigit() for char in text) and any(part.kind in _VALUES for part in parts)
        values = [part for part in parts if part.kind in _VALUES]
        reader = _Line(self, parts, text)
        self.goes_on = bool(parts) and (parts[-1].kind == "with" or text.rstrip().endswith(","))
        if not values:
            self.stages = _stages(text) or self.stages
            title = next((k for k, part in enumerate(parts) if part.text in (":", "=")), 0)  # Output: weights times V
            reader.parts = parts[:title] if any(part.kind == "noun" for part in parts[:title]) else parts
            reader.run()
            return []
        if _SUPPOSED.search(text) or _SEVERAL.search(text) or _is_formula(text):
            if len(values) == 1 < len(parts) and parts[0].kind == "noun" and parts[1].text not in ("=", "≈", ":"):
                self.noun, self.ended = parts[0].noun, False  # a heading: Divide by √2 = 1.414
            return []
        found = reader.run()
        if len(found) == len(values) and _is_chain(text, found):
            found = self.chain(found)
        if len(found) < len(values):
            self.noun, self.subject = before
            return []
        return found

    def as_token(self, part: _Part) -> _Part:
        """Turn a word that the document declares as a token into a token part, unless it is a common word."""
        word = part.text.lower()
        if part.kind != "plain" or word not in self.names or word in _USUAL:
            return part
        return _Part("token", part.text, part.start, part.end, word)

    def chain(self, found: list[Assigned]) -> list[Assigned]:
        """Assign the vectors of a chain to the stages of its heading; an empty list if their number differs."""
        if len(found) != len(self.stages):
            return []
        return [
            Assigned(each.start, each.end, Name(stage, each.target.indices), each.value)
            for each, stage in zip(found, self.stages, strict=True)
        ]


def _stages(text: str) -> tuple[str, ...]:
    """Return the quantities of a heading "dot products → divide by √2 → exp → normalise"; () if one is not known."""
    stages = []
    for words in _ARROW.split(text):
        verb = next((name for name, verbs in _STAGES.items() if re.search(rf"\b(?:{verbs})", words, re.I)), "")
        nouns = [part.noun for part in _parts(words) if part.kind == "noun"]
        stages.append(verb or (nouns[-1] if nouns else ""))
    return tuple(stages) if len(stages) > 1 and all(stages) and len(set(stages)) == len(stages) else ()


def _is_chain(text: str, found: list[Assigned]) -> bool:
    """Return whether an arrow joins two values of one target: [2, 4] → [1.414, 2.828] are two quantities."""
    return any(
        one.target == two.target and _ARROW.fullmatch(text[one.end : two.start].strip())
        for one, two in pairwise(found)
    )


def declared_tokens(text: str) -> list[str]:
    """Return the tokens that a document lists: `Tokens: the, cat, sat`, or the tokens "cat", "sat" and "mat"."""
    quoted = _QUOTED_TOKENS.search(text)
    if quoted is not None:
        return re.findall(r"[^\W\d_]+(?=[\"”'’])", quoted[1].lower())
    found = _DECLARED.search(text)
    return re.findall(r"[^\W\d_]+", (found[1] or found[2]).lower()) if found else []


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a line, each with the space after it."""
    ends = [found.end() for found in _SENTENCE_ENDS.finditer(text)]
    return [text[start:end] for start, end in pairwise([0, *ends, len(text)])]


def token_names(text: str) -> frozenset[str]:
    """Return the tokens that the document declares one by one."""
    quoted, found = _QUOTED_TOKENS.search(text), _DECLARED.search(text)
    listed = quoted is not None or (found is not None and _LISTED.fullmatch((found[1] or found[2]).strip()) is not None)
    return frozenset(declared_tokens(text)) if listed else frozenset()


def noun_of(text: str) -> Name | None:
    """Return the quantity that a title such as "Attention weights" names; None if it names none or several."""
    parts = [part.noun for part in _parts(text) if part.kind == "noun"]
    parts = [noun for noun in parts if noun in _SPECIFIC] or parts  # the output of the feed-forward network
    return Name(parts[0]) if len(set(parts)) == 1 else None


def _is_formula(text: str) -> bool:
    """Return whether a line is arithmetic, a matrix, or `name = value`, which the reader of formulas reads."""
    if _OPERATOR.search(re.sub(r"^\s*[*+-]\s", "", text)) or _NESTED.search(text):
        return True
    left, relation, _ = text.partition("=" if "=" in text else "≈")
    return bool(relation) and (len(re.findall(r"[^\W\d_]{2,}", left)) < 2 or bool(re.search(r"[(\[]", left)))


class _Line:
    def __init__(self, state: ParagraphState, parts: list[_Part], text: str) -> None:
        self.state, self.parts, self.text = state, parts, text
        self.object: Index | None = None
        self.waiting: _Part | None = None  # a number whose token is named after it
        self.asks = False  # whether the line names a query
        self.pointing = False  # whether the last value belongs to a token that the subject attends to
        self.found: list[Assigned] = []
        self.fresh = state.goes_on  # whether a noun was mentioned in this sentence
        self.named = state.goes_on and state.subject is not None  # whether a token was mentioned in this line

    def run(self) -> list[Assigned]:
        for at, part in enumerate(self.parts):
            match part.kind:
                case "noun":
                    self.noun(at, part)
                case "verb":
                    kept = self.fresh or (self.state.noun in ("score", "dotproduct") and part.text.lower() == "gives")
                    self.state.noun = self.state.noun if kept and not _PUTS.match(part.text) else "weight"
                    self.subject_before(at)
                case "token":
                    self.token(at, part)
                case "itself":
                    self.point(self.state.subject)
                case "plain":
                    self.plain(at, part)
                case "number":
                    self.number(at, part)
                case "vector" | "list":
                    self.vector(at, part)
                case "end":
                    self.fresh, self.named, self.object, self.waiting = False, False, None, None
                    self.pointing = False
        return self.found

    def noun(self, at: int, part: _Part) -> None:
        other = part.noun == "value" and not (self.state.noun in ("query", "key") and self.vector_at(at + 1))
        operand = self.fresh and (other or part.noun in _OPERANDS.get(self.state.noun, ()))
        if part.kind == "noun" and not operand:
            self.state.noun, self.fresh = part.noun, True

    def after(self, at: int, kind: str) -> bool:
        return at > 0 and self.parts[at - 1].kind == kind

    def subject_before(self, at: int) -> None:
        """Take the word before a verb as its token: cat attends to …; but "which gives" refers to the same token."""
        if self.after(at, "plain"):
            word = self.parts[at - 1].text.lower()
            same = word in _RELATIVE or word.endswith("ly") or (word in PRONOUNS and self.named)
            self.set_subject(self.state.subject if same else word)

    def token(self, at: int, part: _Part) -> None:
        equals = self.parts[at + 1 : at + 2] and self.parts[at + 1].text == "="
        if part.noun and _VECTOR_NAME.search(part.text) and equals and self.vector_at(at + 2):
            self.state.noun, self.fresh = part.noun, True  # Output of attention: o1 = (2, 1) and o2 = (1, 0)
            self.set_subject(part.index)
            return
        if equals and self.names_cell(at):
            self.state.noun, self.fresh = part.noun, True  # dividing by the sum gives a11 = 0.27: not a sum
            self.set_subject(part.index)
            return
        second = part.noun == "key" and self.named and (
            self.after(at, "between") or (self.state.noun in _OF_PAIRS and self.asks)
        )
        next_object = self.pointing and self.parts[at + 1 : at + 2] and self.parts[at + 1].kind == "with"
        next_object = next_object and not (at + 2 < len(self.parts) and self.parts[at + 2].kind == "token")
        paired = at > 1 and [each.kind for each in self.parts[at - 2 : at]] == ["token", "with"]  # cat with sat: 4
        second = second or (paired and self.state.noun in ("weight", "score", "dotproduct"))
        if (self.is_pointed_to(at) or second or next_object) and self.state.subject is not None:
            self.point(part.index)
            return
        if part.noun == "patch" and (self.state.noun or self.fresh):
            part.noun = ""  # the query of patch 1
        title = part.noun == "query" and self.state.noun in _ROWS_OF_QUERIES and (
            (at == 0 and self.labels(at)) or (self.state.noun in _OF_PAIRS and self.precedes_keys(at))
        )
        self.asks = self.asks or part.noun == "query"
        if part.noun and not title and (not self.fresh or (part.noun != "value" and self.state.noun == "value")):
            self.state.noun = part.noun
        self.set_subject(part.index)

    def names_cell(self, at: int) -> bool:
        """Return whether a token is the name of a number, such as a11 or s_12, and not "the sum for a1"."""
        part, before = self.parts[at], self.parts[at - 1].text.lower() if at else ""
        named = part.noun in ("weight", "score") and re.fullmatch(r"[^\W\d_]_?\{?\d{1,2}\}?", part.text) is not None
        return named and before not in _OF and self.state.noun in _SCALARS

    def labels(self, at: int) -> bool:
        """Return whether a token is the label of the value after it: `query 1: (0.2, 0.8)` below "Weights"."""
        colon = at + 1 < len(self.parts) and self.parts[at + 1].text == ":"
        return self.value_at(at + 2) if colon else self.value_at(at + 1)

    def precedes_keys(self, at: int) -> bool:
        """Return whether the sentence goes on with a number for each of several keys: query 1: with key 1: 2; …"""
        rest = self.parts[at + 1 :]
        end = next((k for k, part in enumerate(rest) if part.kind == "end"), len(rest))
        keys = sum(part.kind == "token" and part.noun == "key" for part in rest[:end])
        return keys > 1 and keys == sum(part.kind in _VALUES for part in rest[:end])

    def is_pointed_to(self, at: int) -> bool:
        """Return whether a preposition such as "to", or a verb, stands before the articles in front of a token."""
        at -= 1
        while at >= 0 and self.parts[at].kind == "plain" and self.parts[at].text.lower() in _ARTICLES:
            at -= 1
        return at >= 0 and self.parts[at].kind in ("toward", "verb")

    def plain(self, at: int, part: _Part) -> None:
        """Take a word as the name of a token where only a token can stand."""
        word = part.text.lower()
        before = self.parts[at - 1].text.lower() if at else ""
        after = self.parts[at + 1] if at + 1 < len(self.parts) else part
        valued = after.kind == "with" and self.value_at(at + 2)
        attends = self.state.noun in ("weight", "score", "dotproduct") and (self.fresh or self.named)
        article = word in _ARTICLES and after is not part and after.kind in ("plain", "token")
        first, dash, second = word.partition("-")
        if dash and self.state.noun in ("weight", "score", "dotproduct") and (
            self.value_at(at + 1) or valued
        ):  # cat-sat 0.61
            self.set_subject(first)
            self.point(second)
        elif after.text in ("->", "→", "⇒") and (
            self.vector_at(at + 2) or (at == 0 and self.value_at(at + 2))
        ):  # cat → (1, 2), cat -> 0.61, 0.39
            self.set_subject(word)
        elif at == 0 and after.text in ("->", "→", "⇒"):  # cat -> sat: 0.61
            self.set_subject(word)
            self.state.noun = self.state.noun if self.state.noun in ("score", "dotproduct") else "weight"
        elif after.kind == "noun" and after.text.lower().startswith("attend"):
            self.set_subject(word)
        elif attends and (
            (self.after(at, "toward") and not article)
            or (valued and self.state.subject is not None and self.owner_after(at + 2) is None)
        ):  # attends to sat …, sat with 0.61
            self.point(word)
        elif valued and word not in _OF_NAME and (before in _OF or (at == 0 and self.state.noun)):
            self.set_subject(word)  # output of cat: (1, 2)

    def set_subject(self, index: Index | None) -> None:
        self.state.subject, self.named, self.object = index, True, None

    def value_at(self, at: int) -> bool:
        return at < len(self.parts) and self.parts[at].kind in _VALUES

    def vector_at(self, at: int) -> bool:
        return at < len(self.parts) and self.parts[at].kind == "vector"

    def point(self, index: Index | None) -> None:
        """Note the token that a weight or score points to."""
        if self.waiting is not None and self.named:
            self.assign(self.waiting, index)
            self.waiting = None
        else:
            self.object = index

    def number(self, at: int, part: _Part) -> None:
        owner = self.owner_after(at)
        if owner is not None and owner.noun == "key" and self.state.noun == "weight" and self.state.subject is None:
            self.found.append(Assigned(part.start, part.end, Name("weight", ("q", owner.index or 0)), part.text))
            owner.kind = "plain"  # 0.27 for the first key, of the only query
        elif owner is not None and self.named and self.object is None and self.state.noun in _OF_PAIRS:
            self.assign(part, owner.index)  # 0.61 for “sat”
            self.parts[self.parts.index(owner)].kind = "plain"
        elif self.object is not None and self.named:
            self.assign(part, self.object)
            self.object = None
        elif self.state.noun in _SCALARS and self.named:
            self.assign(part, None)
        elif self.fresh and self.state.noun in _SCALARS and at == 2 and self.parts[1].text == ":":
            self.found.append(Assigned(part.start, part.end, Name(self.state.noun), part.text))  # normaliser: 15.78
        else:
            self.waiting = part

    def vector(self, at: int, part: _Part) -> None:
        before = self.parts[at - 1] if at else part
        owner = self.owner_after(at)
        if owner is not None and self.state.noun:
            self.set_subject(owner.index)
            self.assign(part, None)
            return
        if before.kind == "token" and not self.fresh and self.text[before.end : part.start].strip() == ",":
            return  # first token, [1 2 3]: the token itself
        row = self.position_in_list(at)
        several = self.tokens_before(at) if row else []
        if len(several) > 1 and len(several) == self.length_of_list(at) and self.fresh:
            index = several[row - 1].index or 0  # the keys of the first and second token are (2, 0) and (1, 1)
            self.found.append(Assigned(part.start, part.end, Name(self.state.noun, (index,)), part.text))
            return
        if row and not self.named and self.fresh:  # the keys are (2, 0), (1, 1), (2, 1)
            self.found.append(Assigned(part.start, part.end, Name(self.state.noun, (row,)), part.text))
            return
        if before.noun == "weight" and before.text.lower().startswith("soft") and before.end == part.start:
            self.assign(part, None, "score")  # softmax(4.24, 2.12)
        elif self.state.noun in _SCALARS:
            return
        elif self.named or (self.state.subject is not None and self.fresh):
            self.assign(part, None)

    def owner_after(self, at: int) -> _Part | None:
        """Return the token that the words directly after a value name: (2, 3) for "cat", but not (2, 3), for "cat"."""
        part, after = self.parts[at], self.parts[at + 1 : at + 4]
        if after and after[0].kind == "keyed" and not self.text[part.end : after[0].start].strip():
            return after[0]  # 0.61 (key 2)
        if not after or after[0].kind != "plain" or after[0].text.lower() not in _OF:
            return None
        if self.text[part.end : after[0].start].strip():
            return None
        named = next((each for each in after[1:] if each.text.lower() not in _ARTICLES or each.kind != "plain"), None)
        return named if named is not None and named.kind == "token" else None

    def position_in_list(self, at: int) -> int:
        """Return the position of a vector, from 1, among several that follow one another; 0 if it stands alone."""
        low, high = self.list_around(at)
        kinds = [part.kind for part in self.parts[low:high]]
        return kinds[: at - low + 1].count("vector") if kinds.count("vector") > 1 else 0

    def list_around(self, at: int) -> tuple[int, int]:
        """Return the range of parts that are vectors following one another, around the one at `at`."""
        low, high = at, at + 1
        while low and self.parts[low - 1].kind in ("vector", "between"):
            low -= 1
        while high < len(self.parts) and self.parts[high].kind in ("vector", "between"):
            high += 1
        return low, high

    def length_of_list(self, at: int) -> int:
        low, high = self.list_around(at)
        return sum(part.kind == "vector" for part in self.parts[low:high])

    def tokens_before(self, at: int) -> list[_Part]:
        """Return the tokens that the sentence names before a list of vectors, after the values before it."""
        found: list[_Part] = []
        for part in reversed(self.parts[: self.list_around(at)[0]]):
            if part.kind == "end" or part.kind in _VALUES:
                break
            found += [part] if part.kind == "token" else []
        return found[::-1]

    def assign(self, part: _Part, index: Index | None, noun: str = "") -> None:
        subject, noun = self.state.subject, noun or self.state.noun
        before = self.parts[: self.parts.index(part)][-2:]
        if not noun and [each.kind for each in before] == ["token", "with"] and before[1].text == "is":
            noun = "token"  # token 1 is (1, 2, 3)
        if subject is None or not noun:
            return
        indices = (subject,) if index is None else (subject, index)
        self.pointing = index is not None
        self.found.append(Assigned(part.start, part.end, Name(noun, indices), part.text))


def _parts(text: str) -> Iterator[_Part]:
    """Yield the parts of a line; numbers that only separators divide are one list."""
    pending: list[_Part] = []
    between: list[_Part] = []  # "and" after a number: part of a list if a number follows
    for part in filter(None, map(_part, _TOKENS.finditer(text))):
        if part.kind == "number" and pending and _joins(text, pending, part):
            pending.append(part)
            between = []
            continue
        if part.kind == "between" and pending and not between:
            between = [part]
            continue
        yield from (*_joined(pending), *between)
        pending, between = ([part], []) if part.kind == "number" else ([], [])
        if part.kind != "number":
            yield part
    yield from (*_joined(pending), *between)


def _joins(text: str, pending: list[_Part], part: _Part) -> bool:
    between = text[pending[-1].end : part.start]
    if between.strip():
        return re.fullmatch(_SEPARATOR, between, re.I) is not None
    return re.search(r"[:=]\s*$", text[: pending[0].start]) is not None


def _joined(pending: list[_Part]) -> Iterator[_Part]:
    if len(pending) < 2:
        yield from pending
        return
    cells = ", ".join(part.text for part in pending)
    yield _Part("list", f"({cells})", pending[0].start, pending[-1].end)


def _part(found: re.Match[str]) -> _Part | None:
    kind, start, end = found.lastgroup or "", found.start(), found.end()
    text = found.group()
    if found["vector"] is not None:
        inside = re.sub(r"^[\[(⟨<{]|[\])⟩>}].*$", "", text)
        cells = [cell.strip() for cell in re.split(_SEPARATOR, inside.strip(), flags=re.I)]
        return _Part("vector", f"({', '.join(_cell(cell) for cell in cells if cell)})", start, end)
    if found["single"] is not None:
        return _Part("number", _cell(found["inside"]), start, end)
    if found["keyed"] is not None:
        return _Part("keyed", text, start, end, int(found["key"]), "key")
    if found["aside"] is not None:
        return None
    if found["index"] is not None:
        nouns = ("query", "key", "value", "output", "patch")
        noun = next((name for name in nouns if re.fullmatch(NOUNS[name], found["kind"], re.I)), "")
        number = int(found["index"])
        index = f"row {number}" if _ROW.fullmatch(found["kind"]) else number  # in columns, a row is not a token
        return _Part("token", text, start, end, index, noun)
    if found["of"] is not None:
        return _Part("token", text, start, end, int(found["of"]), _OF_NAME[text[0].lower()])
    if found["ordinal"] is not None:
        noun = next((name for name in ("query", "key", "value") if re.search(rf"\b(?:{NOUNS[name]})$", text, re.I)), "")
        noun = "output" if " output " in text.lower() else noun  # the first output token
        return _Part("token", text, start, end, _ORDINALS[found["ordinal"].lower()], noun)
    if found["label"] is not None:
        return _Part("token", text, start, end, found["label"].lower())
    if found["word"] is not None:
        return _Part("token", text, start, end, found["word"].lower())
    if found["number"] is not None:
        return _Part("number", _cell(text.partition("±")[0].strip()), start, end)
    if found["symbol"] is not None:
        return _Part("noun", text, start, end, noun=_OF_NAME["o" if text == "H" else text.lower()])
    if kind.startswith("noun_"):
        return _Part("noun", text, start, end, noun=kind.removeprefix("noun_"))
    return _Part(kind, text, start, end)


def _cell(text: str) -> str:
    return text.replace("−", "-").replace(" ", "")
