"""Which questions point back: standalone ones never do, follow-ups do, other languages are left alone."""

from __future__ import annotations

import pytest

from stratagraph.search.followups import points_back

STANDALONE = {
    "english": """
How do I bake sourdough bread?
What is the CEO Shadow Program?
How much may a desk chair cost?
Is it true that the harbour closed in 1902?
Does it rain often in Bremen?
Are there vegetarian meals in the canteen?
How many lighthouses are there on the coast?
So who built the harbour?
And what is the capital of Norway?
So the library is open on Sundays?
What did Ann do before she left?
How long does it take to renew a passport?
Is it possible to cancel an order after shipping?
What time is it in Tokyo?
Why do cats purr when they are happy?
How does a plant make its food?
Can a tenant end the lease if he moves abroad?
What should employees do when they are sick?
Which port has the cheapest ferry fare?
Who wrote the letter and when was it sent?
What happens to a boat when it sinks?
Is there a fee for late returns?
When was the Treaty of Ostra signed?
Where can I park my bicycle?
What does it mean to be a regent?
Did Marie Curie share her prize?
How do I replace the battery of the drive controller?
What are the opening hours this week?
Who is responsible for safety in the plant at Leith?
But how does celery beat schedule tasks?
It rains a lot in Bergen, does the ferry still run?
There are two bridges in Ostra, which is older?
Was there a fire in the mill in 1890?
Who is there to help new employees?
And does the contract end in June?
So what does the warranty cover?
Or is lunch included in the price?
Did Corrie Lund sell her pear to the nursery?
When Tomas Weir died, what did his widow inherit?
Is it raining in Ostra?
How much does it cost to send a parcel to Norway?
Does it matter which form I use?
What makes it hard to learn Danish?
How do employees book their holidays?
When does the museum open its doors?
Why did the company change its name?
How do bees find their way home?
What is the difference between that which is owned and that which is leased?
Which countries had those who emigrated in 1890 chosen?
What should I do if my card is stolen and someone uses it?
Is there anything to see in Leith?
Who wrote Moby Dick and where did he live?
How old was Ada Lovelace when she died?
Where does the story of Robinson Crusoe begin and how does it end?
Explain how the turbine works.
Desk chair price limit
Which one of the planets is the largest?
How many employees are there?
What is it like to work at Sourcegraph?
Who was it that discovered penicillin?
Then what is the fare to Crake?
If a parcel is lost, who pays for it?
What do the letters say about the flood?
How does a heat pump work and why is it efficient?
What are the rules for visitors who bring their dogs?
""",
    "german": """
Wie backe ich Sauerteigbrot?
Was ist das Schattenprogramm der Geschäftsführung?
Wie viel darf ein Bürostuhl kosten?
Ist es wahr, dass der Hafen 1902 geschlossen wurde?
Regnet es oft in Bremen?
Gibt es vegetarische Gerichte in der Kantine?
Wie viele Leuchttürme gibt es an der Küste?
Und wer baute den Hafen?
Also wann öffnet die Bibliothek?
Aber was ist die Hauptstadt von Norwegen?
Was tat Anna Berg, bevor sie ging?
Wie lange dauert es, einen Pass zu erneuern?
Ist es möglich, eine Bestellung zu stornieren?
Wie spät ist es in Tokio?
Warum schnurren Katzen, wenn sie zufrieden sind?
Wie stellt eine Pflanze ihre Nahrung her?
Was müssen Angestellte tun, wenn sie krank sind?
Welcher Hafen hat die billigste Fähre?
Wer schrieb den Brief und wann wurde er verschickt?
Wann wurde der Vertrag von Ostra unterzeichnet?
Wo kann ich mein Fahrrad abstellen?
Wann hat die Firma ihre Zentrale verlegt?
Können Sie mir die Öffnungszeiten nennen?
Worum geht es in dem Roman von Karl Voss?
Wer ist für die Sicherheit im Werk zuständig?
Wer kann Mitglied sein?
Was kostet die Überfahrt nach Ostra in diesem Jahr?
Lohnt es sich, ein Jahresticket zu kaufen?
Wie hoch ist der höchste Berg der Alpen?
Welche Bücher habt ihr über Seefahrt?
Es regnet viel in Bergen, fährt die Fähre trotzdem?
Gab es 1890 einen Brand in der Mühle?
Und endet der Vertrag im Juni?
Oder ist das Mittagessen im Preis enthalten?
Aber was deckt die Garantie ab?
Verkaufte Corrie Lund ihre Birne an die Gärtnerei?
Was erbte die Witwe von Tomas Weir, als er starb?
Was kostet es, ein Paket nach Norwegen zu schicken?
Warum änderte die Firma ihren Namen?
Wie finden Bienen ihren Weg nach Hause?
Was passiert, wenn ein Paket verloren geht und niemand es findet?
Wer schrieb Moby Dick und wo lebte er?
Wie alt war Ada Lovelace, als sie starb?
Erklären Sie, wie die Turbine funktioniert.
Wie viele Angestellte gibt es?
Was ist das Besondere an der Leuchtturmlampe?
Wann öffnet das Museum seine Türen?
Handelt es sich bei der Dunlin um ein Dampfschiff?
Was ist mit der Titanic passiert?
Wie buchen Angestellte ihren Urlaub?
Was sagen die Briefe über die Flut?
Wann wird es in Bremen eine neue Brücke geben?
Muss man sich dafür anmelden, dass man die Bibliothek nutzt?
Haben Sie vegetarische Gerichte?
Preis Bürostuhl
""",
    "french": """
Comment fait-on du pain au levain ?
Qu'est-ce que le programme d'immersion ?
Combien peut coûter une chaise de bureau ?
Est-il vrai que le port a fermé en 1902 ?
Pleut-il souvent à Brême ?
Y a-t-il des plats végétariens à la cantine ?
Combien de phares y a-t-il sur la côte ?
Et qui a construit le port ?
Alors quand ouvre la bibliothèque ?
Mais quelle est la capitale de la Norvège ?
Qu'a fait Anne Roux avant qu'elle parte ?
Combien de temps faut-il pour renouveler un passeport ?
Est-il possible d'annuler une commande ?
Quelle heure est-il à Tokyo ?
Pourquoi les chats ronronnent-ils quand ils sont contents ?
Comment une plante produit-elle sa nourriture ?
Que doivent faire les employés quand ils sont malades ?
Quel port a le tarif le moins cher ?
Qui a écrit la lettre et quand a-t-elle été envoyée ?
Quand le traité d'Ostra a-t-il été signé ?
Où puis-je garer mon vélo ?
Que s'est-il passé à Verdun ?
De quoi s'agit-il dans le roman de Karl Voss ?
Il y a combien de ponts à Brême ?
Qui est responsable de la sécurité dans l'usine ?
Quels sont les horaires cette semaine ?
Faut-il réserver une table ?
Quel est le prix de la traversée ?
Marie Curie a-t-elle partagé son prix ?
Comment remplacer la batterie du contrôleur ?
Il pleut beaucoup à Bergen, le ferry circule-t-il ?
Y avait-il un incendie au moulin en 1890 ?
Et le contrat se termine-t-il en juin ?
Ou le déjeuner est-il compris dans le prix ?
Mais que couvre la garantie ?
Corrie Lund a-t-elle vendu sa poire à la pépinière ?
Combien coûte l'envoi d'un colis en Norvège ?
Pourquoi l'entreprise a-t-elle changé de nom ?
Comment les abeilles retrouvent-elles leur ruche ?
Qui a écrit Moby Dick et où vivait-il ?
Quel âge avait Ada Lovelace quand elle est morte ?
Combien d'employés y a-t-il ?
Quand le musée ouvre-t-il ses portes ?
Est-ce que le port est ouvert le dimanche ?
Qu'est-ce qui fait monter l'eau ?
Que disent les lettres au sujet de la crue ?
Il existe combien de langues en Inde ?
Faut-il que le locataire prévienne son propriétaire ?
Quel est le son d'une cloche de bronze ?
Prix chaise de bureau
Comment les employés réservent-ils leurs congés ?
Est-il permis de fumer dans le jardin ?
Qui est le président de la Norvège ?
Où se trouve la tour de Leith ?
À quelle heure part le ferry pour Ostra ?
""",
    "spanish": """
¿Cómo se hace el pan de masa madre?
¿Qué es el programa de acompañamiento?
¿Cuánto puede costar una silla de oficina?
¿Es cierto que el puerto cerró en 1902?
¿Llueve mucho en Bremen?
¿Hay platos vegetarianos en la cantina?
¿Cuántos faros hay en la costa?
¿Y quién construyó el puerto?
Entonces, ¿cuándo abre la biblioteca?
Pero ¿cuál es la capital de Noruega?
¿Qué hizo Ana Ruiz antes de que ella se fuera?
¿Cuánto se tarda en renovar un pasaporte?
¿Es posible cancelar un pedido?
¿Qué hora es en Tokio?
¿Por qué ronronean los gatos cuando están contentos?
¿Cómo produce una planta su alimento?
¿Qué deben hacer los empleados si ellos están enfermos?
¿Qué puerto tiene la tarifa más barata?
¿Quién escribió la carta y cuándo la enviaron?
¿Cuándo se firmó el tratado de Ostra?
¿Dónde puedo aparcar mi bicicleta?
¿Qué le pasó a Karla Voss?
¿De qué trata la novela de Karla Voss?
¿Por qué la luna brilla?
¿Quién es responsable de la seguridad en la planta?
¿Cuáles son los horarios esta semana?
¿Qué es lo que hace un notario?
¿Cuál es el precio de la travesía?
¿Compartió Marie Curie su premio?
¿Cómo cambio la batería del controlador?
Llueve mucho en Bergen, ¿circula el ferry?
¿Hubo un incendio en el molino en 1890?
¿Y termina el contrato en junio?
¿O está incluido el almuerzo en el precio?
Pero ¿qué cubre la garantía?
¿Vendió Corrie Lund su pera al vivero?
¿Cuánto cuesta enviar un paquete a Noruega?
¿Por qué la empresa cambió su nombre?
¿Cómo encuentran las abejas su colmena?
¿Quién escribió Moby Dick y dónde vivía él?
¿Qué edad tenía Ada Lovelace cuando ella murió?
¿Cuántos empleados hay?
¿Cuándo abre el museo sus puertas?
¿Qué dicen las cartas sobre la inundación?
¿Cuál es la diferencia entre lo que se compra y lo que se alquila?
¿Cómo reservan los empleados sus vacaciones?
¿Está permitido fumar en el jardín?
¿A qué hora sale el ferry para Ostra?
¿Qué les dijo el rey a los soldados?
¿Por qué los gatos ronronean?
¿Qué pasa con mi contrato si me mudo a otra ciudad?
¿Cómo puedo hablar con un agente?
Precio silla de oficina
¿Quién la guerra de Troya ganó?
¿Es verdad que Karla Voss dejó Bremen?
""",
}
FOLLOW_UPS = {
    "english": """
When did she die?
Who built it?
And in 1902?
What about the second bridge?
How about Bremen?
Who lived there?
Why is that important?
And the captain?
When was this bridge built?
Which one is older?
What happened after that?
Why?
And why not?
So who built it?
What was the name of his ship?
How long does it take?
Is it safe?
Who was there?
What happened then?
In which city was he born?
Who were her parents?
How many children did they have?
Where was she born?
Did he have children?
And her husband?
And before that?
What about in winter?
When did it sink?
Who owned it then?
Who else worked there?
Are they still open?
How tall is it?
What does it cost?
Can I cancel it?
Who was its architect?
Since when?
How so?
But why?
What did they sell?
And the price?
Does this apply to contractors?
What is that called?
Is it still in use?
And what did he do after the war?
Which of them is the oldest?
How do I get there from Bremen?
Was it built for the king?
Who is his wife?
""",
    "german": """
Wann starb sie?
Wer hat es gebaut?
Und 1902?
Und in Bremen?
Was ist mit der zweiten Brücke?
Wer wohnte dort?
Warum ist das wichtig?
Und der Kapitän?
Wann wurde diese Brücke gebaut?
In welchem Jahr starb er?
Wer waren ihre Eltern?
Wie hieß sein Schiff?
Warum?
Wie lange dauert es?
Was geschah danach?
Also wer baute es?
Wo wurde sie geboren?
Hatte er Kinder?
Und ihr Mann?
Und davor?
Wann sank es?
Sind sie noch offen?
Wie hoch ist er?
Was kostet das?
Wer war sein Architekt?
Seit wann?
Wie komme ich dorthin?
Gilt das auch für Freiberufler?
Und was machte er nach dem Krieg?
Wo lebten sie?
Wem gehörte es damals?
Und im Winter?
""",
    "french": """
Quand est-elle morte ?
Qui l'a construit ?
Et en 1902 ?
Et à Brême ?
Qu'en est-il du deuxième pont ?
Qui y habitait ?
Pourquoi est-ce que cela est important ?
Et le capitaine ?
Quand ce pont a-t-il été construit ?
En quelle année est-il mort ?
Qui étaient ses parents ?
Comment s'appelait son navire ?
Pourquoi ?
Qui la dirige ?
Que s'est-il passé ensuite ?
Dans quelle ville est-il né ?
Où est-elle née ?
Avait-il des enfants ?
Et son mari ?
Et avant cela ?
Quand a-t-il coulé ?
Sont-ils encore ouverts ?
Combien ça coûte ?
Qui était son architecte ?
Depuis quand ?
Comment y aller ?
Et qu'a-t-il fait après la guerre ?
Et en hiver ?
Où vivaient-ils ?
Qui les a construits ?
Pourquoi cette décision ?
Lequel ?
""",
    "spanish": """
¿Cuándo murió ella?
¿Quién lo construyó?
¿Y en 1902?
¿Y en Bremen?
¿Qué hay del segundo puente?
¿Quién vivía allí?
¿Por qué es eso importante?
¿Y el capitán?
¿Cuándo se construyó ese puente?
¿En qué año murió él?
¿Quiénes eran sus padres?
¿Cómo se llamaba su barco?
¿Por qué?
¿Quién la dirige?
¿Qué pasó después?
¿Quién decidió construirlo?
¿Dónde nació ella?
¿Y su marido?
¿Y antes?
¿Cuánto cuesta eso?
¿Quién era su arquitecto?
¿Desde cuándo?
¿Cómo llego allí?
¿Y qué hizo él después de la guerra?
¿Y en invierno?
¿Dónde vivían ellos?
¿Cuándo lo hundieron?
¿Cómo puedo cancelarlo?
¿Por qué esa decisión?
¿Cuál?
¿Quién los construyó?
""",
}
OTHERS = """
Quando è morta lei?
E nel 1902?
Quando morreu ela?
Wanneer stierf ze?
En in 1902?
När dog hon?
Och i 1902?
Когда она умерла?
А в 1902?
彼女はいつ死にましたか
그녀는 언제 죽었습니까?
Kiedy ona umarła?
Ne zaman öldü o?
Mikor halt meg ő?
Πότε πέθανε αυτή;
متى ماتت؟
"""


@pytest.mark.parametrize("language", STANDALONE)
def test_a_question_that_stands_alone_is_left_alone(language: str) -> None:
    questions = STANDALONE[language].strip().splitlines()
    assert len(questions) >= 30
    assert [question for question in questions if points_back(question)] == []


@pytest.mark.parametrize("language", FOLLOW_UPS)
def test_a_follow_up_points_back(language: str) -> None:
    questions = FOLLOW_UPS[language].strip().splitlines()
    assert [question for question in questions if not points_back(question)] == []


def test_other_languages_never_point_back() -> None:
    assert [question for question in OTHERS.strip().splitlines() if points_back(question)] == []


@pytest.mark.parametrize("question", ["?", "...", "42", "and", "Und", "¿?", "x" * 5000, "it " * 3000])
def test_odd_questions_are_read(question: str) -> None:
    assert points_back(question) in (True, False)
