"""Which samples, across clients that may not share them, belong together?"""
