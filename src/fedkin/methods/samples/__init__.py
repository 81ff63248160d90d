"""Which samples, across sites that may not share them, belong together?"""
