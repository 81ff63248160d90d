"""Studies: many runs compared, reproduced from papers, costed or attacked."""
