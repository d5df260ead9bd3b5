"""Printers of expressions: text, LaTeX and MathML."""
