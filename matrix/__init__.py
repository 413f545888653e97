"""Cases, checks and results: does a model export, on which versions, with which specs?"""
