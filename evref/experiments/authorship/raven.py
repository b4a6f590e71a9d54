"""Where the works of Poe begin in the five volumes of the Raven Edition, as Project Gutenberg's files print them.

What is before the first heading and after the last line is not his or not prose: in volume 1 the essays by others, in
volume 2 the notes (some his, some the editor's), in volume 5 the poems with their notes.
"""

from __future__ import annotations

# number of the e-book -> headings, and the line where his prose ends (None: with the book)
VOLUMES: dict[int, tuple[tuple[str, ...], str | None]] = {
    2147: (
        (
            "THE UNPARALLELED ADVENTURES OF ONE HANS PFAALL (*1)",
            "THE GOLD-BUG",
            "FOUR BEASTS IN ONE--THE HOMO-CAMELEOPARD",
            "THE MURDERS IN THE RUE MORGUE",
            "THE MYSTERY OF MARIE ROGET.(*1)",
            "THE BALLOON-HOAX",
            "MS. FOUND IN A BOTTLE",
            "THE OVAL PORTRAIT",
        ),
        None,
    ),
    2148: (
        (
            "THE PURLOINED LETTER",
            "THE THOUSAND-AND-SECOND TALE OF SCHEHERAZADE",
            "A DESCENT INTO THE MAELSTRÖM.",
            "VON KEMPELEN AND HIS DISCOVERY",
            "MESMERIC REVELATION",
            "THE FACTS IN THE CASE OF M. VALDEMAR",
            "THE BLACK CAT.",
            "THE FALL OF THE HOUSE OF USHER",
            "SILENCE--A FABLE",
            "THE MASQUE OF THE RED DEATH.",
            "THE CASK OF AMONTILLADO.",
            "THE IMP OF THE PERVERSE",
            "THE ISLAND OF THE FAY",
            "THE ASSIGNATION",
            "THE PIT AND THE PENDULUM",
            "THE PREMATURE BURIAL",
            "THE DOMAIN OF ARNHEIM",
            "LANDOR’S COTTAGE",
            "WILLIAM WILSON",
            "THE TELL-TALE HEART.",
            "BERENICE",
            "ELEONORA",
        ),
        "NOTES TO THIS VOLUME",
    ),
    2149: (
        (
            "NARRATIVE OF A. GORDON PYM",
            "LIGEIA",
            "MORELLA",
            "A TALE OF THE RAGGED MOUNTAINS",
            "THE SPECTACLES",
            "KING PEST.",
            "THREE SUNDAYS IN A WEEK",
        ),
        None,
    ),
    2150: (
        (
            "THE DEVIL IN THE BELFRY",
            "LIONIZING",
            "X-ING A PARAGRAPH",
            "METZENGERSTEIN",
            "THE SYSTEM OF DOCTOR TARR AND PROFESSOR FETHER",
            "THE LITERARY LIFE OF THINGUM BOB, ESQ.",
            "HOW TO WRITE A BLACKWOOD ARTICLE.",
            "A PREDICAMENT",
            "MYSTIFICATION",
            "DIDDLING",
            "THE ANGEL OF THE ODD",
            "MELLONTA TAUTA",
            "THE DUC DE L’OMELETTE.",
            "THE OBLONG BOX.",
            "LOSS OF BREATH",
            "THE MAN THAT WAS USED UP.",
            "THE BUSINESS MAN",
            "THE LANDSCAPE GARDEN",
            "MAELZEL’S CHESS-PLAYER",
            "THE POWER OF WORDS",
            "THE COLLOQUY OF MONOS AND UNA",
            "THE CONVERSATION OF EIROS AND CHARMION",
            "SHADOW--A PARABLE",
        ),
        None,
    ),
    2151: (
        (
            "PHILOSOPHY OF FURNITURE.",
            "A TALE OF JERUSALEM",
            "THE SPHINX",
            "HOP-FROG",
            "THE MAN OF THE CROWD.",
            "NEVER BET THE DEVIL YOUR HEAD",
            "THOU ART THE MAN",
            "WHY THE LITTLE FRENCHMAN WEARS HIS HAND IN A SLING",
            "BON-BON.",
            "SOME WORDS WITH A MUMMY.",
            "THE POETIC PRINCIPLE",
            "OLD ENGLISH POETRY (*)",
        ),
        "POEMS",
    ),
}
