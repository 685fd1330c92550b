"""Which questions of a conversation point back, in English, German, French and Spanish.

Without a model a question is completed only if it cannot be understood alone. It points back with a pronoun
("When did she die?"), a place ("Who lived there?") or a demonstrative ("Why is that important?"), or because
it is no whole question ("And in 1902?", "What about the bridge?", "Why?"). It does not with an expletive ("Is
it true that ...", "es gibt"), nor with a pronoun whose noun may stand in the question itself ("What did Ann
do before she left?"). In doubt a question is left as it is. Questions in other languages never point back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stratagraph.ingest.extraction.by_rules import proper_names
from stratagraph.ingest.names.spelling import words
from stratagraph.text.stopwords import GRAMMAR, language_of

_FEW = 5
"""Words after "and" of what is no whole question ("the second bridge on the left")."""
_BORDER = r"[.,;:!?—–]"
_END = r"(?=\W*$|\s*[?.!,;])"
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class _Rules:
    """How a language points back.

    Parameters
    ----------
    joins
        Conjunctions that begin what is no whole question.
    leads
        Words before a question that say nothing.
    asks
        Question words, and particles that go with them; a question of these alone points back.
    verbs
        Finite verbs by which a whole question is recognised.
    determiners
        Words before a noun that a pronoun may stand for.
    nouns
        Pattern of nouns without a determiner.
    clauses
        Words that begin another clause, whose pronouns may stand for nouns of the clause before.
    about
        Pattern of beginnings such as "what about".
    predicates
        Pattern of beginnings whose noun is asked for: no pronoun stands for it ("Who was the captain ...").
    expletives
        Patterns of pronouns and demonstratives that stand for nothing.
    pronouns
        Patterns of pronouns and of words for places.
    possessives
        Patterns of pronouns that may stand for a noun of their own clause.
    points
        Patterns that point back whatever else is in the question.
    """

    joins: str
    leads: str
    asks: str
    verbs: str
    determiners: str
    nouns: str
    clauses: str
    about: str
    predicates: str
    expletives: tuple[str, ...]
    pronouns: tuple[str, ...]
    possessives: tuple[str, ...]
    points: tuple[str, ...]


_EN_SAID = (
    "(?:true|possible|impossible|legal|illegal|safe|dangerous|allowed|forbidden|permitted|necessary|required|"
    "mandatory|compulsory|ok|okay|fine|good|bad|better|best|worth|important|common|normal|usual|customary"
    "|rare|likely|unlikely|hard|difficult|easy|easier|harder|cheap|cheaper|expensive|wrong|right|rude|polite"
    "|wise|advisable|healthy|unhealthy|enough|late|early|time|known|said|called|clear|certain|useful|harmful)"
)
_EN_THAT = "(?:that|to|for|if|when|whether|how|what|which|where|who)"
_DE_SAID = (
    "(?:wahr|möglich|unmöglich|richtig|falsch|erlaubt|verboten|nötig|notwendig|sinnvoll|wichtig|gut|schlecht|"
    "besser|schwer|schwierig|leicht|einfach|sicher|normal|ratsam|üblich|legal|illegal|gefährlich|gesund|"
    "ungesund|bekannt|kalt|warm|heiß|dunkel|teuer|billig|höflich|unhöflich|zulässig|vorgeschrieben|Pflicht)"
)
_FR_SAID = (
    "(?:vrai|possible|impossible|nécessaire|permis|interdit|autorisé|obligatoire|légal|illégal|dangereux|bon|"
    "mauvais|mieux|préférable|utile|important|normal|difficile|facile|temps|tard|conseillé|recommandé"
    "|courant|rare|prévu|connu)"
)
_RULES = {
    "english": _Rules(
        joins="and or but",
        leads="so and or but also well ok okay now",
        asks="who whom whose what which when where why how else exactly since until not by to from come so "
        "then",
        verbs="is are was were am do does did has have had can could will would shall should may might must",
        determiners="the a an any every each my our your someone anyone everyone somebody people",
        nouns=r"\b(?:do|does|did|are|were|can|could|should|must|may|will|would) (?!his\b|its\b)(?:\w+ )?"
        r"\w{2,}s\b|\b\w{2,}s (?:who|that|which)\b",
        clauses="when if before after while because once until till as since so that than and or but "
        "whether who where which although though unless",
        about=r"(?:what|how) about\b|what of\b",
        predicates=r"(?:who|what|which|where|when|why|how \w+)(?:'s| is| are| was| were)",
        expletives=(
            rf"\b(?:is|was|isn't|wasn't|be) it (?:\w+ ){{0,2}}?{_EN_SAID}\b(?= (?:\w+ )?{_EN_THAT}\b)",
            r"\b(?:is|was) it (?:true|known|said)(?= \w)",
            rf"\bit(?:'s| is| was| would be| will be| be) (?:\w+ ){{0,2}}?{_EN_SAID}\b(?= (?:\w+ "
            rf")?{_EN_THAT}\b)",
            rf"\b(?:make|makes|made|find|finds|found|consider|considered) it (?:\w+ ){{0,2}}?{_EN_SAID}\b",
            r"\bit (?:\w+ )?(?:rain|snow|hail)(?:s|ed|ing)?\b",
            r"\b(?:is|was) it (?:raining|snowing|cold|hot|warm|dark|sunny|windy|humid)\b",
            r"\bit (?:get|gets|got|is getting) (?:dark|cold|hot|warm|late)\b",
            rf"\bit (?:\w+ )?(?:take|takes|took|cost|costs|mean|means|need|needs|require|requires|matter"
            rf"|matters|"
            rf"help|helps|feel|feels|pay|pays|make sense|hurt)(?: \w+){{0,3}}? (?:like )?{_EN_THAT}\b",
            r"\bit (?:seem|appear|turn|follow|happen)(?:s|ed)?(?: out)? (?:that|to|like)\b",
            r"\bit come(?:s)? to\b",
            r"\bwhat (?:time|day|year|date) (?:is|was) it\b",
            r"\b(?:who|what|where|when|why)(?:'s| is| was) it (?:that|who|like)\b",
            r"\b(?:is|was) it \w+ (?:who|that)\b",
            r"\bthere(?:'s| is| are| was| were| will| would| has| have| had| can| could| may| might| must| "
            r"should| seems?| exists?| remains?| used)\b",
            r"(?<!\bwho )\b(?:is|are|was|were|isn't|aren't|be|been|will|has|have|can|could|would|should"
            r"|may|might|must) there\b|\bthere to\b",
            r"\bthis (?:year|month|week|morning|afternoon|evening|spring|summer|autumn|winter|century|time|"
            r"document|page|guide|manual|handbook|site|website|collection|index|book|project|company)\b",
            r"\bthese days\b",
            r"\bthat is to say\b",
        ),
        pronouns=(r"\b(?:he|him|she|it|they|them|there)\b", rf"\bher{_END}"),
        possessives=(r"\b(?:his|hers|its|theirs?)\b", r"\bher\b"),
        points=(
            rf"\b(?:this|that|these|those|then|afterwards|the latter|the former|the others?){_END}",
            r"\b(?:is|was|are|were|do|does|did|has|have|can|could|would|should|will|isn't|doesn't) "
            r"(?:this|that|these|those)\b(?! (?:who|which|that)\b)",
            r"\b(?:of|for|in|at|by|to|with|about|from|than|after|before|during|on|near|under|like|since"
            r"|until) (?:this|that|these|those)\b(?! (?:who|which|that)\b)",
            r"\b(?:this|these) (?!who|which|that)\w+",
            r"\b(?:that|this|which|another|the \w+) ones?\b(?! of\b)",
        ),
    ),
    "german": _Rules(
        joins="und oder aber",
        leads="also und oder aber nun ja ok okay",
        asks="wer wen wem wessen was wann wo wohin woher warum wieso weshalb wie welche welcher welches "
        "welchem welchen genau denn sonst noch seit bis nicht",
        verbs="ist sind war waren wird werden wurde wurden hat haben hatte hatten kann können darf dürfen "
        "muss müssen soll sollte sollten gibt gab",
        determiners="der die das den dem des ein eine einen einem einer eines jeder jede jedes jemand man "
        "mein meine unser unsere kein keine",
        nouns=r"\b[A-ZÄÖÜ]\w+",
        clauses="als wenn bevor nachdem während weil da ob bis seit seitdem dass und oder aber damit "
        "sodass obwohl sobald solange falls indem",
        about=r"was ist mit\b(?!.*\b(?:passiert|geschehen|gemeint|los)\b)|wie (?:steht|sieht) es (?:mit"
        r"|bei)\b",
        predicates=r"(?:wer|was|wie|welche\w*|wo|wann|warum) (?:ist|sind|war|waren|heißt|hieß|lautet)",
        expletives=(
            r"\b(?:gibt|gab|gäbe) es\b|\bes (?:gibt|gab|gäbe)\b|\bes\b(?=.*\bgeben\b)",
            r"\bes (?:regnet|schneit|heißt|geht|handelt|lohnt|stimmt|bedarf)\b",
            r"\b(?:regnet|schneit|lohnt|bedarf) es\b|\b(?:stimmt|heißt|dauert|kostet) es(?=,| \w)",
            r"\b(?:geht|ging|handelt|handelte) es(?= (?:um|bei|in|sich)\b)|\bkommt es(?= (?:zu|darauf|vor"
            r"|dass)\b)|\bkam es(?= (?:zu|dazu|zum|zur)\b)",
            rf"\b(?:ist|war|wäre|wird) es (?:\w+ ){{0,2}}?{_DE_SAID}\b(?=,| \w)",
            rf"\bes (?:ist|war|wäre) (?:\w+ ){{0,2}}?{_DE_SAID}\b",
            r"\bwie spät ist es\b|\bwie geht es (?:ihnen|dir|euch)\b",
            r"\bdiese[nmrs]? (?:jahr|jahres|woche|monat|monats|tage|tagen|mal|sommer|winter|jahrhundert"
            r"|zeit)\b",
            r"\b(?:habt|seid|könnt|wollt|müsst|dürft|sollt|werdet|macht|bietet|verkauft) ihr\b",
            r"\bda(?:für|zu|von|ran|rauf|bei)\b(?=[^?]*, (?:dass|ob|wie|zu))",
        ),
        pronouns=(
            r"\b(?:er|sie|es|ihn|ihm|ihnen|dort|dorthin|davon|darin|daran|darauf|darüber|darunter|dahinter"
            r"|daneben|dafür|dagegen|dazu|danach|dabei|daraus)\b",
            rf"\bihr{_END}",
        ),
        possessives=(r"\b(?:seine|ihre)[nmrs]?\b", r"\b(?:sein|ihr)(?= (?:[a-zäöü]+ )?[A-ZÄÖÜ])"),
        points=(
            r"\b(?:diese[nmrs]?|dies|jene[nmrs]?|letztere[nmrs]?|erstere[nmrs]?)\b",
            rf"\b(?:das|damals){_END}|^\w+ das (?:auch|noch|immer|schon|nur|denn)\b",
            r"\b(?:ist|war|bedeutet|heißt|funktioniert|kostet|macht|kann|hat) das(?: [a-zäöüß]+){0,2}\W*$",
            rf"\b(?:der|die|das|den) (?:andere|anderen|erste|zweite|letzte){_END}",
        ),
    ),
    "french": _Rules(
        joins="et ou mais",
        leads="alors et donc mais ou bon ok",
        asks="qui que quoi quand où comment pourquoi combien quel quelle quels quelles lequel laquelle "
        "lesquels lesquelles exactement depuis pas donc non d'autre",
        verbs="est sont était étaient fut furent a ont avait avaient va vont peut peuvent doit doivent "
        "faut sera seront c'est est-ce a-t-il a-t-elle est-il est-elle sont-ils sont-elles",
        determiners="le la les un une des du au aux chaque mon ma mes notre nos votre vos quelqu'un",
        nouns=r"\b[ld]'(?!(?:a|ont|avait|avaient|aura)\b)\w",
        clauses="quand lorsque si avant après pendant que parce puisque tandis et ou mais dont où qui pour",
        about=r"qu'en (?:est-il|était-il)\b|et pour\b|quid\b",
        predicates=r"(?:qui|quel(?:le)?s?|où|comment|combien|quand) (?:est|sont|était|étaient|fut|furent)",
        expletives=(
            r"\bil (?:n')?(?:y (?:a|avait|aura|eut)|pleut|pleuvait|neige|faut|fallait|faudra|s'agit|existe"
            r"|suffit|arrive|reste|manque|vaut|convient|paraît|semble|se passe)\b",
            r"\b(?:y (?:a|avait|aura|eut)|pleut|neige|faut|fallait|agit|existe|suffit|arrive|reste|manque"
            r"|vaut|convient|paraît|semble|se passe|se produit|s'est)-(?:t-)?ils?\b",
            r"\bfait-il (?:froid|chaud|beau|nuit|jour|mauvais|bon|noir|frais|humide)\b",
            rf"\b(?:est|était|serait)-il (?:\w+ ){{0,2}}?{_FR_SAID}\b(?= \w)",
            rf"\bil (?:est|était|serait) (?:\w+ ){{0,2}}?{_FR_SAID}\b",
            r"\bquelle heure (?:est|était)-il\b",
            r"\bce(?:t|tte|s)? (?:année|semaine|mois|matin|soir|été|hiver|printemps|siècle|jours?|moment)\b",
            r"\bça va\b|\by compris\b|\b(?:le|du|un|au) son\b",
        ),
        pronouns=(
            r"(?<!-)\b(?:il|elle|ils|elles|lui|eux|y|là-bas)\b",
            rf"\blà{_END}",
            r"\b(?:celui|celle|ceux|celles)-(?:ci|là)\b",
            r"\bl'(?:a|ont|avait|avaient|aura)\b|\b(?:le|la|les)(?= (?:a|ont|avait|avaient)\b)",
            rf"\b(?:qui|quand|où|comment|pourquoi) (?:le|la|les) [\w-]+{_END}",
        ),
        possessives=(r"-(?:il|elle|ils|elles)\b", r"\b(?:son|sa|ses|leurs?)\b"),
        points=(
            r"\b(?:ça|cela|ceci|cet|cette|ces)\b",
            r"(?<![\w'-])ce (?!que\b|qui\b|qu'|n'|sont\b|soit\b|fut\b)\w+",
            rf"\b(?:ensuite|alors|après|l'autre|les autres|le premier|le second|le deuxième|le "
            rf"dernier){_END}",
        ),
    ),
    "spanish": _Rules(
        joins="y e o u pero",
        leads="entonces y pues bueno pero o",
        asks="qué quién quiénes cuál cuáles cuándo dónde adónde cómo cuánto cuánta cuántos cuántas por "
        "para más exactamente no desde hasta",
        verbs="es son era eran fue fueron está están ha han hay había tiene tienen puede pueden debe deben",
        determiners="el la los las un una unos unas mi mis nuestro nuestra cada alguien",
        nouns=r"\b[ad]el? \w",
        clauses="cuando si antes después mientras porque que y o pero aunque donde hasta desde para",
        about=r"qué (?:hay del?|tal|pasa con|ocurre con)\b(?=(?:\W+\w+){1,4}\W*$)",
        predicates=r"(?:quién|quiénes|cuál|cuáles|qué|dónde|cómo) (?:es|son|era|eran|fue|fueron|está"
        r"|están)",
        expletives=(
            r"\blo (?:que|mejor|peor|más|menos|mismo|único|primero|último|siguiente|contrario|largo|tanto"
            r"|general)\b",
            r"\bpor (?:eso|ello)\b",
            r"\best[eao]s? (?:año|años|semana|mes|mañana|tarde|noche|verano|invierno|siglo|momento|días)\b",
            r"\bles?\b(?=.*\ba(?:l|\b))",
            r"\bcharlas?\b",
        ),
        pronouns=(
            r"\b(?:él|ella|ellos|ellas|ello|allí|allá|ahí|lo|les?)\b",
            r"\b(?:quién|quiénes|cuándo|dónde|cómo) (?:la|los|las) \w+(?: en \d+)?\W*$",
            r"\b\w{2,}[aei]r(?:l[oa]s?|les?)\b",
        ),
        possessives=(r"\b(?:sus?|suy[oa]s?)\b",),
        points=(
            r"\b(?:eso|esto|aquello|es[ea]|es[oa]s|aquel|aquella|aquell[oa]s)\b",
            r"\best(?:e|a|os|as) \w+",
            rf"\b(?:entonces|después|luego|(?:el|la) (?:otr[oa]|primer[oa]|segund[oa]|últim[oa])){_END}",
        ),
    ),
}


class _Language:
    """The compiled rules of a language."""

    def __init__(self, name: str, rules: _Rules) -> None:
        self.name = name
        self.joins, self.asks, self.verbs = (
            frozenset(each.split()) for each in (rules.joins, rules.asks, rules.verbs)
        )
        self.leads = re.compile(rf"(?:(?:{_one_of(rules.leads)})\b[\s,]*)+", re.IGNORECASE)
        self.about = re.compile(rules.about, re.IGNORECASE)
        self.expletives = re.compile("|".join(rules.expletives), re.IGNORECASE)
        self.pronouns = re.compile("|".join(rules.pronouns))
        self.possessives = re.compile("|".join(rules.possessives))
        self.points = re.compile("|".join(rules.points))
        self.nouns = re.compile(rf"\b(?:{_one_of(rules.determiners)})\s+\w|{rules.nouns}")
        self.asked = re.compile(rf"{rules.predicates} (?:{_one_of(rules.determiners)}) \w+")
        self.clauses = re.compile(rf"{_BORDER}|\b(?:{_one_of(rules.clauses)})\b")


def _one_of(text: str) -> str:
    return "|".join(map(re.escape, text.split()))


@cache
def _language(name: str) -> _Language:
    return _Language(name, _RULES[name])


def points_back(question: str) -> bool:
    """Whether a question says something only together with what was said before it."""
    text = " ".join(question.replace("\u2019", "'").split()).strip("¿¡\"'“”„«» ")
    name = language_of(words(text))
    if name not in _RULES:
        return False
    language = _language(name)
    tokens = _TOKEN.findall(text)
    joined = tokens[0].lower() in language.joins
    rest = [each.lower() for each in tokens[joined:]]
    if len(rest) <= 3 and language.asks.issuperset(rest):
        return True
    if joined and len(rest) <= _FEW and (language.asks | language.verbs).isdisjoint(rest):
        # What else begins with a small letter may be a verb: "Und endet der Vertrag?"
        begins_with_noun = rest[0] in GRAMMAR[name] or not tokens[1].islower()
        if begins_with_noun or len(rest) <= 2:
            return True
    text = language.leads.sub("", text, count=1) if language.leads.match(text) else text
    text = text.lstrip("¿¡ ")
    if language.about.match(text):
        return True
    # German tells nouns, and "Sie" from "sie", by capitals; so does a name in any language.
    names = [
        each
        for each in proper_names(text)
        if not GRAMMAR[name].issuperset(words(each)) and (name != "german" or " " in each)
    ]
    text = text[:1].lower() + text[1:] if name == "german" else text.lower()
    text = language.expletives.sub(lambda match: "-" * len(match[0]), text)
    if language.points.search(text):
        return True
    places = [text.lower().find(each.lower()) for each in names]
    first = min((place for place in places if place >= 0), default=len(text))
    return any(
        match.start() < first and not _bound(text[: match.start()], language, own_clause=own_clause)
        for pattern, own_clause in ((language.pronouns, False), (language.possessives, True))
        for match in pattern.finditer(text)
    )


def _bound(before: str, language: _Language, *, own_clause: bool) -> bool:
    """Whether a pronoun may stand for a noun before it: of a clause before its own, or of its own too."""
    asked = language.asked.match(before)
    begins = asked.end() if asked else 0
    if language.name == "german":  # "in which year" names nothing
        before = re.sub(r"\b(?:[Ww]elche[nmrs]?|[Ww]ie viele?n?) (?:[a-zäöüß]+ )?[A-ZÄÖÜ]\w+", "", before)
    noun = language.nouns.search(before, begins)
    return noun is not None and (own_clause or language.clauses.search(before, noun.end()) is not None)
