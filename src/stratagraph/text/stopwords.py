"""Words that make no entity by themselves, in the languages that write names with capitals.

Written for this package. `FUNCTION` has the words of grammar (articles, pronouns, prepositions,
conjunctions, auxiliaries, question words), `GRAMMAR` the same by language, with more of those that questions
have; `OPENERS` the content words that often begin an English sentence, where their capital says nothing,
`STEPS` those of instructions among them; `NO_THINGS` those that tell which, how many, when or what was done:
a phrase with one of them ("four minutes", "sent back") names no thing;
`MONTHS_AND_WEEKDAYS` what is an entity only as part of a date.
"""

from __future__ import annotations

from collections.abc import Sequence

_ENGLISH = """
    a an the this that these those such some any each every either neither both all many much more most few
    fewer several another other others one ones no none nor not only own same so too very just also even
    still yet already again ever never always often sometimes usually once twice here there everywhere
    somewhere i me my mine myself you your yours yourself he him his himself she her hers herself it its
    itself we us our ours ourselves they them their theirs themselves someone somebody something anyone
    anybody anything everyone everybody everything nobody nothing who whom whose which what when where why
    how whatever whoever whenever wherever whichever whether if unless until till while whilst although
    though because since as than then thus hence therefore however moreover furthermore nevertheless
    nonetheless otherwise instead meanwhile besides and or but of in on at by to from for with without
    within into onto upon over under above below between among amongst through throughout during before
    after about against along across around behind beside beyond despite down up off out near next past per
    toward towards via like unlike except including excluding regarding concerning according due is are was
    were be been being am has have had having do does did doing done can could will would shall should may
    might must ought let lets don't doesn't didn't isn't aren't wasn't weren't can't cannot couldn't won't
    later afterwards finally initially originally eventually recently currently subsequently additionally
    today formerly previously shortly consequently accordingly similarly respectively wouldn't it's he's
    she's that's there's i'm i've i'll you're we're they're what's who's yes yeah oh ok okay please hey hi
    hello dear dearest
"""
_OTHERS = {
    "german": """
    der die das den dem des ein eine einen einem einer eines und oder aber auch als am an auf aus bei beim
    bis da damit dann dass denn doch durch er sie es wir ihr ich du mich mir dich dir ihn ihm ihnen sein
    seine seiner ihre ihrer ihren für gegen hat hatte haben hier im in ins ist sind war waren wird werden
    wurde wurden ja jedoch kein keine mit nach nicht noch nur ob ohne schon sehr seit sich so sowie über um
    unter vom von vor wann warum was weil welche welcher welches wenn wer wie wieder wo zu zum zur zwischen
    während dieser diese dieses nachdem obwohl sondern
""",
    "french": """
    le la les l un une des du de d au aux et ou où mais donc car ni ne pas plus que qui quoi dont quand
    comment pourquoi quel quelle quels quelles ce cet cette ces c il elle ils elles on nous vous je tu lui
    leur leurs se son sa ses mon ma mes ton ta tes notre nos votre vos est sont était étaient fut furent été
    être avoir a ont avait dans en sur sous par pour avec sans chez vers entre depuis pendant après avant
    contre selon comme si alors aussi très y
""",
    "spanish": """
    el los las lo uno una unos unas al del y e o u pero sino porque como cuando donde quien cual cuál qué
    quién cómo cuándo dónde este esta estos estas ese esa eso aquel aquella él ella ellos ellas su sus mi
    mis tu tus nos se me te le les es son era eran fue fueron ser estar está están ha han había hay en con
    sin sobre bajo por para desde hasta entre hacia según tras durante también muy más menos ya no sí
""",
    "italian": """
    il lo gli i un uno una di a da in con su per tra fra del dello della dei degli delle al allo alla ai
    agli alle dal dallo dalla dai nel nello nella nei nelle sul sulla che chi cui non è sono era erano fu
    furono ha hanno aveva essere questo questa questi queste quello quella quando dove come perché anche ma
    però più
""",
    "portuguese": """
    o os as um uma uns umas do da dos das no na nos nas ao à aos às pelo pela pelos pelas e ou mas que quem
    qual quando onde como porque não sim é são foi foram era eram ser estar está ele ela eles elas seu sua
    seus suas com sem sob sobre para por desde até entre também muito mais este esta isto esse essa
""",
    "dutch": """
    het een de en of maar want dat die deze dit hij zij ze wij we jij je u ik hem haar hen hun zijn was
    waren is wordt werd werden heeft had hebben niet geen ook nog al in op aan uit bij met naar van voor
    door over onder tot om te als dan toen wie wat waar wanneer waarom hoe er
""",
    "swedish": """
    och att det som är av för på med den till var inte ett jag han hon vi har hade från eller men efter
    också
""",
    "danish": """
    af og er ikke fra blev
""",
    "polish": """
    i w na z ze do od po za przez przy jest są był była było byli nie to ten ta te że się jak który która
    które gdy oraz lub ale dla
""",
    "russian": """
    и в во не на я он она оно они мы вы что как это этот эта эти то тот та все с со а но из за по к ко у о
    об от до для при же ли бы был была было были его её их мне так только когда где кто если или есть после
    также
""",
    "greek": """
    και ο η το οι τα των τον την του της στο στη στην στον στα με από για που δεν είναι ήταν ως θα να
""",
}
# Further ones of questions and requests.
_OF_QUESTIONS = {
    "english": """
    tell explain describe show list give name summarize summarise compare did does whats whos else exactly
    """,
    "german": """
    wen wem wessen wohin woher wieso weshalb welchem welchen wieviel viele viel heißt gibt gab kann können
    konnte soll sollte muss müssen darf dürfen will wollen hast habe haben hätte bin bist seid waren wurden
    worden gewesen worin woran worauf womit wofür wozu wovon worüber man uns euch mein meine meinen dein deine
    unser unsere jede jeder jedes jeden alle allen beim zum zur mal denn eigentlich genau erkläre nenne zeige
    beschreibe sag dort danach davon darin geschah diesem diesen jene jener
    """,
    "french": """
    où quelles lequel laquelle lesquels lesquelles combien pourquoi d j m n s t qu c faut doit doivent peut
    peuvent pouvez puis sommes êtes suis as avez avons avait avaient eu fait font cela ça ceci ils moi toi eux
    chaque tout toute tous toutes là explique décris donne cite est-ce
    """,
    "spanish": """
    cuáles quiénes cuánto cuánta cuántos cuántas adónde puede pueden puedo debe deben debo tiene tienen tengo
    hizo hace hacen fueron estaba estaban sido había habían al lo qué esto eso aquello allí ahí mío nuestro
    nuestra nuestros todo toda todos todas cada cuyo cuya explica describe nombra dime la de que un a
    """,
    "italian": "e ed la le l d a nell dell all lei lui loro",
    "portuguese": "a de em se num numa",
}
_QUALIFIERS = """
    according accordingly additionally actually afterwards ago almost alone alongside alternatively
    altogether annual annually apart approximately available away back based basically best better big
    biggest bigger briefly broadly certain certainly chief clearly closely collectively common commonly
    completely compared concerned consequently considered contrary conversely critical current currently
    daily depending derived described designed different directly early earlier easily economic elsewhere
    entire equally especially essentially established eventually evidence evidently exactly example famous
    far federal final finally first firstly five followed following foreign former formerly forty four
    founded frequently full fully fundamentally further general generally given good gradually great greater
    greatest half hardly high higher highest historic historical historically huge hundred hundreds ideally
    immediately important inside initial initially interestingly international internationally introduced
    known large largely larger largest last lastly late later latter least left less likewise limited little
    living local located long longer low lower mainly major making maybe member members middle million
    millions modern mostly multiple named namely national native natural nearby nearly new newer news nine
    nominally normally notable notably now nowadays numerous official officially old older oldest ongoing
    open opposite original originally outside overall particularly partly people perhaps political poor
    popular possible possibly predominantly present presently previous previously primarily primary prior
    private probably professional public published quite rather real really recent recently related
    relatively released religious respectively roughly secondly seven seventh second separate shortly
    similar similarly simply single six small smaller social soon special specific specifically standard
    strictly strong strongly subsequent subsequently successful suddenly sure surprisingly ten tenth the
    third thirdly thirty thousand thousands three today together tomorrow top total traditional
    traditionally true twelve twenty two typical typically ultimately unfortunately unusual usual various
    versions virtually well widely world worldwide written years yesterday young younger zero eight eighth
    eleven fifteen fifty fifth fourth sixth ninth
"""
_THINGS = """
    access accounts action activities actor actors actress advances age agriculture air album albums
    analysis ancestors ancestry animals archaeologists area areas army art article articles artists aspects
    attempts attendance attention author authorities authors average awards background band beer birds birth
    books boys building buildings business businesses cars cases cast census centuries century changes
    chapter characters child children cities citizens city civilians classes classical climate club clubs
    coal coffee colour color colonies commentators communities community companies company competition
    completion computer computers conditions construction contemporary control copies costs countries
    country couples court courts coverage credits critics crops cultural culture customers damage data dates
    death deaths debate demand democracy deposits descendants design details development developments
    director districts doctors documents dogs drugs economy education efforts election elections electric
    electricity elements employees employment energy engineers english-language episode episodes estimates
    ethnic events examples exchange expansion experience experiments experts exports extensive facilities
    families family fans farmers features females figures film films fire firms fish flights food football
    footage forces forests form formation fossil fossils friends fruit funding games gas girls glass god
    gold government governments groups growth guests guitar head health heat heavy help history hospitals
    host house households houses housing human humans hunting ice ideas images immigrants immigration
    imports income increased increasing indigenous individual individuals industrial industry inflation
    influences information inhabitants interest investors islands issues items jobs judges judicial key kids
    kings land language languages law laws lawyers leaders leadership learning legal legend letters levels
    life light lines list literature locals love lyrics machines males management man manufacturers
    manufacturing maps marriage material materials matter means measures media medical medicine men
    merchants metal methods migration military mining minor minorities models money monarchs mother
    mountains movement movies murder music musical musicians names nations nature navigation neighbors
    newspapers night nominations northern number numbers objects observers officers officials oil operation
    operations opinions opposition organic organizations others output owners pain paintings parents part
    parts passengers patients performance performances performers person personal persons perspective
    photographs physical physicians pieces pilots plans plants play players plot point points police
    policies policy politicians politics population populations ports power powers practice precipitation
    prices prisoners problems producers production products profits programs progress property proponents
    protests provinces publication publications publishers quality questions railways rain rainfall rates
    reaction readers reality reception records recording reference references regions regulations relations
    religion remains removal reports representatives research researchers residents resistance resources
    responses results reviews rice rights rising rivers roads rulers rules rumors sales schools science
    scientific scientists scholars season seasons security senior services settlement settlers sex ships
    side signs silver slavery slaves snow society soil soldiers someone songs sound sounds sources southern
    species speakers speed sports staff stars state states stations statistics stone stores stories story
    strategies structures student students studies subjects summer sunlight sunshine support supporters
    surveys survivors symptoms systems tax taxes teachers teams technology television temperature
    temperatures terms territories text theories things thought ticket tickets time times tools tourism
    tourists towns trade traffic training trains transport transportation treatment treaties trees tribes
    troops unemployment units universities users uses valley value values vehicles version victims video
    viewers views villages violence visitors volume volunteers voters voting war wars water way wealth
    weapons weather week weeks wheat winter wine winners winning winds witnesses women wood wool words work
    workers works writers writing autumn spring
"""
_DOINGS = """
    born begun adding aged allowing although appearing appointed approved arriving assuming asked backed
    beginning believing bought bringing built called calling carried caught caused chosen claimed coming
    compiled composed consisting constructed containing continuing created crossing cut dating declared
    dedicated defeated defined destroyed determined developed directed discovered divided drawing drawn
    driven educated elected employed encouraged ending equipped existing expected faced facing fed feeling
    filmed finding finished flying forced formed fought found getting giving going grown held helped hearing
    hired hit hoping hosted impressed inspired intended invented invited joined joining keeping killed
    knowing landing launched leaving led looking lost made managed married meaning measuring meeting
    mentioned met mixed moved moving needed nominated noted occurring offered opened operating ordered
    organized owned paid painted passed performed placed planned played playing powered prepared produced
    promoted provided put raised ranging read reaching reading realizing received recorded referred
    remaining returned returning running said saw saying seeing seeking seen selected sent serving set shot
    showing shown signed situated sold speaking spending split spoken spread standing starred starring
    started starting stating stopped studying succeeded supported supposing surrounded taken taking talking
    taught tells told took trained traveling treated trying turned turning understanding unlike upset used
    using viewed visited waiting watching wearing went won wondering working wrote add ask begin believe
    bring call come consider continue do find follow get give go imagine keep know look make mark move note
    remember return run say see sell send show speak start stop suppose take talk tell thank thanks think
    try turn use wait want welcome describe explain compare summarize summarise name define discuss identify
    mention awesome nice wow cool yep nope sorry congrats perfect absolutely definitely alas merry bah hush
    hark hallo good-bye goodbye hurrah mr mrs ms miss sir madam lady lord dr prof professor st mt jr sr king
    queen president captain section figure table page appendix notes contents introduction conclusion
    abstract index preface
"""
# With these begin steps of instructions, lines of changelogs and headings of documentation.
_STEPS = """
    adjust allow avoid bump check choose clarify click configure correct create customise customize deprecate
    disable document drop enable ensure evaluate fix handle ignore implement improve include inherit install
    introduce load migrate override pass prefer prevent print provide raise refactor remove rename replace
    require restore revert save simplify skip support switch test upgrade update warn
"""

ENGLISH = frozenset(_ENGLISH.split())
FUNCTION = ENGLISH | frozenset(" ".join(_OTHERS.values()).split())
GRAMMAR = {
    language: frozenset([*(text + _OF_QUESTIONS.get(language, "")).split(), *text.replace("'", "").split()])
    for language, text in {"english": _ENGLISH, **_OTHERS}.items()
}
STEPS = frozenset(_STEPS.split())
OPENERS = frozenset(f"{_QUALIFIERS} {_THINGS} {_DOINGS}".split()) | STEPS
NO_THINGS = frozenset(f"{_QUALIFIERS} {_DOINGS}".split())
_CALENDAR = """
    january february march april may june july august september october november december monday tuesday
    wednesday thursday friday saturday sunday
"""
MONTHS_AND_WEEKDAYS = frozenset(_CALENDAR.split()) | {f"{day}s" for day in _CALENDAR.split()[12:]}


def stop_words(text: str) -> frozenset[str]:
    """The words of grammar for a text: the English ones if it seems to be English, else those of all."""
    if " the " in text:
        return ENGLISH
    used = {word for word in text.split() if word.islower()}
    english = len(used & ENGLISH)
    return ENGLISH if english and 2 * english >= len(used & FUNCTION) else FUNCTION


def language_of(words: Sequence[str]) -> str:
    """The language of `GRAMMAR` that has most of the words of a question; empty if it has too few of them."""
    counts = {language: sum(word in own for word in words) for language, own in GRAMMAR.items()}
    best = max(counts, key=counts.__getitem__)
    return best if 3 * counts[best] >= len(words) > 0 else ""
