"""The vocabulary: which letters form one name and which a product, and the meaning of LaTeX commands and symbols."""

from __future__ import annotations


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _pairs(words: str) -> dict[str, str]:
    found = words.split()
    return dict(zip(found[::2], found[1::2], strict=True))


FUNCTIONS = {
    "exp": "exp", "log": "log", "ln": "log", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh", "sqrt": "sqrt",
    "max": "max", "min": "min", "abs": "abs", "relu": "relu", "softmax": "softmax", "softargmax": "softmax",
    "softmin": "softmin", "sigmoid": "sigmoid", "layernorm": "layernorm", "concat": "concat", "diag": "diag",
    "rank": "rank", "det": "det", "var": "var", "mean": "mean", "argmax": "argmax", "arg": "arg", "gelu": "gelu",
    "attention": "attention", "multihead": "multihead", "mha": "multihead", "ffn": "ffn", "mlp": "mlp", "ln2": "log",
}  # fmt: skip

# Adjacent capitals are a product (QK, XW), except these.
WORDS = frozenset({"PE", "FFN", "MSA", "MHA", "LN", "MLP", "EMD", "ReLU", "SA", "MHSA", "FLOPs", "Var"})
QUANTITIES = frozenset("QKVXWSAHOEMZPUBCDY")

_GREEK = (
    "alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi ξ omicron ο "
    "pi π rho ρ sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω"
)
GREEK = _pairs(_GREEK)
GREEK |= {name.capitalize(): letter.upper() for name, letter in GREEK.items()}
GREEK |= {"varepsilon": "ε", "vartheta": "θ", "varphi": "φ", "varrho": "ρ", "varsigma": "ς"}
SYMBOLS = GREEK | {
    "ell": "ℓ", "nabla": "∇", "partial": "∂", "hbar": "ħ", "Re": "ℜ", "Im": "ℑ", "aleph": "ℵ", "emptyset": "∅",
    "dots": "…", "ldots": "…", "cdots": "…", "vdots": "…", "ddots": "…", "hdots": "…", "imath": "i", "jmath": "j",
    "star": "⋆", "ast": "⋆", "forall": "∀", "exists": "∃", "square": "□", "Box": "□", "checkmark": "✓",
}  # fmt: skip

RELATIONS = {
    "=": "=", "==": "=", ":=": "=", "=:": "=", "equiv": "=", "triangleq": "=", "coloneqq": "=", "doteq": "=",
    "≈": "≈", "approx": "≈", "simeq": "≈", "sim": "≈", "cong": "≈", "approxeq": "≈", "~": "≈", "~=": "≈", "≅": "≈",
    "≃": "≈", "∼": "≈", "fallingdotseq": "≈", "→": "→", "⇒": "→", "->": "→", "=>": "→", "-->": "→", "==>": "→",
    "rightarrow": "→", "to": "→", "longrightarrow": "→", "Rightarrow": "→", "Longrightarrow": "→", "implies": "→",
    "mapsto": "→", "leadsto": "→", "longmapsto": "→", "⟹": "→", "⟶": "→", "↦": "→", "➔": "→", "therefore": "→",
    "∴": "→", "iff": "→", "Leftrightarrow": "→", "leftrightarrow": "→", "⇔": "→", "rightsquigarrow": "→",
    "<": "<", ">": ">", "lt": "<", "gt": ">", "≤": "≤", "≥": "≥", "le": "≤", "ge": "≥", "leq": "≤", "geq": "≥",
    "<=": "≤", ">=": "≥", "ll": "<", "gg": ">", "leqslant": "≤", "geqslant": "≥", "≠": "≠", "ne": "≠", "neq": "≠",
    "!=": "≠", "∈": "∈", "in": "∈", "notin": "∈", "subset": "∈", "subseteq": "∈", "∝": "∝", "propto": "∝", "≡": "=",
    "leftarrow": "=", "gets": "=", "←": "=",
}  # fmt: skip

OPERATORS = {
    "cdot": "*", "times": "*", "ast": "*", "bullet": "*", "·": "*", "×": "*", "∙": "*", "⋅": "*", "•": "*", "✕": "*",
    "∗": "*", "*": "*", "div": "/", "÷": "/", "/": "/", "∕": "/", "⁄": "/", "slash": "/", "+": "+", "-": "-", "−": "-",
    "–": "-", "—": "-", "odot": "⊙", "⊙": "⊙", "circ": "⊙", "∘": "⊙", "otimes": "⊗", "⊗": "⊗", "oplus": "⊕", "⊕": "⊕",
    "pm": "±", "±": "±", "mp": "±", "prime": "'", "′": "'", "’": "'", "'": "'", "^": "^", "_": "_", "**": "^", "!": "!",
    ",": ",", ";": ";", "&": "&", "|": "|", "vert": "|", "lvert": "|", "rvert": "|", "mid": "|", "Vert": "‖",
    "‖": "‖", "lVert": "‖", "rVert": "‖", ":": ":", "colon": ":", "%": "%", "@": "*", "√": "√", "surd": "√",
    "wedge": "∧",
}  # fmt: skip

BIG = {"sum": "sum", "prod": "product", "int": "integral", "lim": "limit", "bigoplus": "⊕", "oint": "integral",
       "bigcup": "union", "max": "max", "min": "min"}  # fmt: skip
BIG_SIGNS = {"∑": "sum", "Σ": "sum", "∏": "product", "∫": "integral"}

# Dropped: they change only the appearance.
FONTS = _set(
    "mathbf boldsymbol bm mathcal mathbb mathsf mathit mathtt mathfrak vec bold pmb boxed fbox ensuremath "
    "overbrace underbrace mathop mathbin mathrel mathord mathnormal widevec overrightarrow mathscr displaylines "
    "uline underline emph large small"
)
LOOKS = _set(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm middle displaystyle textstyle "
    "scriptstyle scriptscriptstyle limits nolimits nonumber notag hline cline centering bf rm it sf cal strut "
    "mathstrut hfill noindent allowbreak nobreak par newline toprule midrule bottomrule relax null color"
)
SPACES = frozenset([*",;:! >/\n\t-", "thinspace", "medspace", "thickspace", "enspace"])
GAPS = frozenset(["quad", "qquad"])
WITH_ARGUMENT = _set(
    "label tag hspace vspace phantom hphantom vphantom color ref eqref cite footnote hskip mspace rule cline "
    "setlength includegraphics bigskip kern"
)
TEXTS = _set("text textbf textit textrm textsf texttt mbox hbox intertext shortintertext textnormal textup")
UPRIGHT = _set("mathrm operatorname operatorname* textsc")
STRIKES = _set("cancel xcancel bcancel sout st hcancel strike soutmath hout xout")
ACCENTS = {"hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303", "widetilde": "\u0303", "bar": "\u0304",
           "overline": "\u0304", "dot": "\u0307", "ddot": "\u0308", "check": "\u030c"}  # fmt: skip
MATRICES = _set("matrix bmatrix pmatrix Bmatrix vmatrix Vmatrix smallmatrix array bsmallmatrix psmallmatrix")
ROWS = _set("aligned split gathered alignedat align gather equation multline eqnarray cases dcases multlined")
TRANSPOSES = frozenset(["T", "top", "intercal", "⊤", "ᵀ", "⊺", "mathsf T", "tr", "t", "\\top"])

BRACKETS = {"{": ("open", "s"), "}": ("close", "s"), "lbrace": ("open", "s"), "rbrace": ("close", "s"),
             "langle": ("open", "<"), "rangle": ("close", "<"), "lbrack": ("open", "["), "rbrack": ("close", "["),
             "lfloor": ("open", "f"), "rfloor": ("close", "f"), "lceil": ("open", "f"), "rceil": ("close", "f"),
             "lparen": ("open", "("), "rparen": ("close", "(")}  # fmt: skip


def split_letters(run: str) -> list[str]:
    """Split letters into names: QK is Q times K, out is one name, XWQ is X times W_Q, qk is q times k."""
    if len(run) == 1 or run in WORDS or run.lower() in FUNCTIONS:
        return [run]
    if run in ("dk", "dv", "dq"):
        return [run]
    if run.islower():
        return [run] if len(run) > 2 else list(run)
    if all(letter in QUANTITIES for letter in run):
        pieces: list[str] = []
        for letter in run:
            if pieces and pieces[-1] == "W" and letter in "QKVO":
                pieces[-1] = "W" + letter
            else:
                pieces.append(letter)
        return pieces
    if run.isupper():
        return list(run)
    if run[0].isupper() and run[1:].islower() and len(run) > 2:
        return [run]
    return list(run) if len(run) <= 3 else [run]
