"""The wordings of the grammar as plain data: statements, questions, attributes.

Slots: {a} attribute, {k} key, {v} value, {p} a bystander's name.
A form that begins with '!' is never held out. A question that begins with '~' is a completion: it is not wrapped in
"Question: ... Answer:". Forms are separated by | and line ends; a | inside a form is written ¦.
Statements and questions of one family can be paired freely.
"""

STATEMENTS = """The {a} for {k} is {v}.|The {a} of {k} is {v}.|{k}'s {a} is {v}.|{v} is the {a} for {k}.|{v} is the {a} of {k}.
For {k}, the {a} is {v}.|The {a} for {k} was set to {v}.|The {a} of {k} was set to {v} yesterday.
The {a} for {k} has been changed to {v}.|The {a} of {k} was changed to {v} last week.|As the {a} for {k}, use {v}.
Use {v} as the {a} for {k}.|{k} has the {a} {v}.|{k} has {v} as its {a}.|{k} uses {v} as its {a}.|{k} uses the {a} {v}.
{k} was given the {a} {v}.|{k} received {v} as its {a}.|{v} was chosen as the {a} for {k}.|{v} was assigned to {k} as its {a}.
They assigned the {a} {v} to {k}.|We set the {a} for {k} to {v}.|We agreed on {v} as the {a} of {k}.
Remember that the {a} for {k} equals {v}.|Remember: {v} is the {a} for {k}.|Note that the {a} of {k} equals {v}.
Keep in mind that the {a} for {k} is {v}.|!One of the special {a}s for {k} is: {v}.|The special {a} for {k} is {v}.
The {a} for {k} is now {v}.|The {a} for {k} is still {v}.|The new {a} for {k} is {v}.|The current {a} of {k} is {v}.
The {a} that belongs to {k} is {v}.|The {a} belonging to {k} is {v}.|The {a} registered for {k} is {v}.
The {a} on file for {k} is {v}.|The {a} we use for {k} is {v}.|The {a} which was chosen for {k} is {v}.
The {a} listed next to {k} is {v}.|The {a} known to {k} is {v}.|The {a} for {k} turned out to be {v}.|The {a} for {k} reads {v}.
The {a} for {k} will be {v} from now on.|The {a} for {k} has always been {v}.|The {a} of {k} should be {v}.
The {a} of {k} must be {v}.|From today the {a} for {k} is {v}.|Since Monday, the {a} for {k} has been {v}.
Until further notice the {a} of {k} stays {v}.|In our records, the {a} of {k} is {v}.|In the list, {k} appears with the {a} {v}.
On the form, {v} was entered as the {a} for {k}.|The register gives {v} as the {a} of {k}.|The register shows {k} with {a} {v}.
The label says that the {a} for {k} is {v}.|A small note says that {k} has the {a} {v}.|{p} told us that the {a} for {k} is {v}.
{p} said that {k}'s {a} is {v}.|{p} wrote that the {a} of {k} is {v}.|{p} remembers that {v} is the {a} for {k}.
According to {p}, the {a} for {k} is {v}.|According to the report, {k}'s {a} is {v}.|"The {a} for {k} is {v}," said {p}.
"{v} is the {a} of {k}," {p} replied.|{p} wrote down {v} as the {a} for {k}.|{p} changed the {a} for {k} to {v}.
{p} gave {k} the {a} {v}.|When asked about the {a} for {k}, {p} answered {v}.|If anyone asks for the {a} for {k}, say {v}.
If you need the {a} of {k}, it is {v}.|Anyone who needs the {a} for {k} should know that it is {v}.
You will need {v}, which is the {a} for {k}.|You can use {v}, the {a} of {k}.|We looked up {k} and found that its {a} is {v}.
It is {v} that serves as the {a} for {k}.|What is the {a} for {k}? It is {v}.|Regarding {k}: the {a} is {v}.
About {k}: its {a} is {v}.|Concerning {k}, please use the {a} {v}.|Make sure that the {a} for {k} is {v}.
Please set the {a} of {k} to {v}.|Nobody but {p} knew that the {a} for {k} was {v}.|{k}, whose {a} is {v}, was mentioned too.
{k} ({a} {v}) was on the list as well.|There is also {k} with the {a} {v}.|Everyone knows {k}; its {a} is {v}.
{v} - that is the {a} for {k}.|{a} for {k}: {v}|{a} of {k}: {v}|{a} {k}: {v}|{a} ({k}): {v}|{k} - {a}: {v}|{k}: {a} {v}
{k}: {a} = {v}|{k} ({a}): {v}|{k} {a}: {v}|{k} {a} = {v}|{k}'s {a}: {v}|{k}'s {a} = {v}|{a}[{k}] = {v}|{a}({k}) = {v}
{k}.{a} = {v}|{k} / {a} / {v}|{k} ¦ {a} ¦ {v}|¦ {k} ¦ {a} ¦ {v} ¦|{a}, {k}, {v}|set {a} {k} {v}|[{k}] {a} = {v}|{k} -> {a}: {v}
{a} = {v} for {k}|{a}: {v} ({k})|- {k}, {a}: {v}|* {a} for {k} = {v}|Entry: {k}. {a}: {v}.|Name: {k}; {a}: {v}
Name: {k}\\n{a}: {v}|Subject: {k}\\nThe {a} is {v}.|{{"name": "{k}", "{a}": "{v}"}}|{{"{a}": {{"{k}": "{v}"}}}}
<entry name="{k}" {a}="{v}"/>|{k},{a},{v}|{k};{a};{v}|{k}\\t{a}\\t{v}|Let the {a} of {k} be {v}.
Assume that the {a} for {k} is {v}.|Suppose {k} has {a} {v}.|It is well known that the {a} of {k} is {v}.
It was confirmed that the {a} for {k} is {v}.|It turned out that {k}'s {a} was {v}.|We learned today that {k} has {v} as {a}.
The answer to the question about the {a} of {k} is {v}."""

QUESTIONS = """What is the {a} for {k}?|What is the {a} of {k}?|What is {k}'s {a}?|What's the {a} for {k}?|What's {k}'s {a}?
What was the {a} for {k}?|What is the {a} that belongs to {k}?|Which {a} does {k} have?|Which {a} belongs to {k}?
Which {a} was set for {k}?|Which {a} goes with {k}?|Which {a} is used for {k}?|What {a} does {k} use?|What {a} was given to {k}?
What {a} is listed for {k}?|What {a} should I use for {k}?|Tell me the {a} for {k}.|Tell me {k}'s {a}.
Tell me what the {a} of {k} is.|Give the {a} of {k}.|Give me the {a} for {k}.|Please give me the {a} for {k}.
Please tell me {k}'s {a}.|Can you tell me the {a} for {k}?|Could you give me the {a} of {k}?|Do you know the {a} for {k}?
Do you remember {k}'s {a}?|I need the {a} for {k}.|I am looking for the {a} of {k}.|I forgot the {a} for {k}. What is it?
State the {a} for {k}.|Name the {a} of {k}.|Find the {a} for {k}.|Find {k}'s {a}.|Look up the {a} for {k}.|Recall the {a} for {k}.
Remind me of the {a} for {k}.|{k}'s {a}?|{a} for {k}?|{a} of {k}?|{k} {a}?|For {k}, what is the {a}?
In the text, what is the {a} for {k}?|According to the text, what is the {a} for {k}?|According to the text, what is {k}'s {a}?
What does the text give as the {a} for {k}?|What does the text say the {a} of {k} is?|Which value is given as the {a} for {k}?
What value does the {a} for {k} have?|What is the value of the {a} for {k}?|What should I use as the {a} for {k}?
What is used as the {a} for {k}?|What was chosen as the {a} of {k}?|What is listed as the {a} for {k}?
What is recorded as {k}'s {a}?|What did they set the {a} for {k} to?|What does {k} have as {a}?|What does the {a} for {k} equal?
The {a} for {k} is what?|{k} has which {a}?|Someone asks for the {a} for {k}. What do you say?|What was the {a} for {k} again?
What is the {a} mentioned for {k}?|What exactly is the {a} of {k}?|What is the current {a} for {k}?
!What is the special {a} for {k} mentioned in the provided text?|How does the {a} for {k} read?|Say the {a} for {k}.
Write the {a} of {k}.|Answer with the {a} for {k}.
!~What is the special {a} for {k} mentioned in the provided text? The special {a} for {k} mentioned in the provided text is
!~What does the {a} for {k} equal? It equals|~The {a} for {k} is|~The {a} of {k} is|~{k}'s {a} is|~{a} for {k}:|~{k} - {a}:
~What is the {a} for {k}? It is|~As we read above, the {a} for {k} is|~So the {a} of {k} is"""

# attribute nouns: (value kind, key kinds, nouns)
ATTRIBUTES = [
    ("code", "any", """passcode|secret passcode|access code|door code|security code|pin|PIN code|password|entry code|combination
safe combination|token|API token|key|secret key|licence key|serial number|id|user id|customer number|account number|order number
invoice number|ticket number|tracking number|reference number|registration number|booking code|confirmation code|product code
batch number|badge number|vault code|alarm code|gate code|wifi password|recovery code|voucher code|membership number|case number
code|secret code|unlock code|login code|identifier|reference|contract number|policy number|activation code|master key"""),
    ("n", "any", "magic number|special magic number|secret number|lucky number|number|favourite number|checksum|target value|result"),
    ("phone", "any", "phone number|telephone number|fax number|mobile number|emergency number"),
    ("n3", "any", """extension|room number|locker number|office number|seat number|gate number|platform number|shelf number|box number
parking space|table number|house number|port|channel|flight number|bus line|page number|score|budget|capacity|weight|height|room|locker"""),
    ("words", "any", "code word|secret word|keyword|motto|title|project name|user name|team name|secret phrase|label|alias|topic"),
    ("colour", "any", "colour|favourite colour|flag colour|paint colour|color"),
    ("name", "any", "nickname|mascot|code name|assistant|pet name|pet|ship|dog"),
    ("person", "any", "manager|owner|contact person|teacher|author|captain|director|supervisor|winner|neighbour"),
    ("animal", "any", "favourite animal|emblem animal|animal"),
    ("food", "any", "favourite food|lunch|favourite dish"),
    ("city", "person", "home town|birthplace|destination|next stop|home city"),
    ("year", "any", "founding year|year|birth year|opening year"),
    ("date", "any", "deadline|birthday|date|opening date|expiry date"),
    ("money", "any", "price|fee|cost|rent"),
    ("job", "person", "job|profession|occupation"),
]

# families with their own verbs: (name, value kind, key kind, statements, questions)
FAMILIES = [
    ("equals", "code", "unique",
     """!{k} = {v}|!Note: {k} = {v}|!{k}: {v}|{k} equals {v}.|{k} is {v}.|{k} -> {v}|{k} => {v}|{k}={v}|let {k} be {v}
Let {k} = {v}.|define {k} {v}|#define {k} {v}|{k} := {v}|The value of {k} is {v}.|{k} maps to {v}.|{k} stands for {v}.
{k} has the value {v}.|We write {k} for {v}.|{k} == {v}|"{k}": "{v}",|export {k}={v}|const {k} = "{v}";
{k} was set to {v}.|Set {k} to {v}.|{k} means {v}.|By {k} we mean {v}.|{k} is short for {v}.|{k}\\t{v}|{k},{v}
<{k}>{v}</{k}>|{k} got the value {v}.|{k} corresponds to {v}.""",
     """!What is {k}?|What does {k} equal?|What is the value of {k}?|{k}?|Value of {k}?|What does {k} map to?
Which value does {k} have?|What does {k} stand for?|What is {k} equal to?|Tell me the value of {k}.|Give {k}.
Look up {k}.|Recall {k}.|What value was given for {k}?|What value has {k}?|Which value belongs to {k}?
What was {k} set to?|What does {k} mean?|{k} is what?|What corresponds to {k}?|!~Recall {k}:|~{k} =|~{k}:|~{k} equals
~The value of {k} is|!~Q: What is {k}?\\nA:"""),
    ("unlock", "code", "place",
     """{v} opens {k}.|{v} unlocks {k}.|To open {k}, enter {v}.|To unlock {k}, type {v}.|To get into {k}, use {v}.
{k} opens with {v}.|{k} unlocks with {v}.|{k} can be opened with {v}.|{k} is locked with {v}.|Type {v} to open {k}.
Enter {v} to unlock {k}.|With {v} you can open {k}.|You get into {k} with {v}.|{p} opened {k} with {v}.
{k} is protected by {v}.|Nobody can open {k} without {v}.|Only {v} will open {k}.|The lock of {k} takes {v}.
Access to {k}: {v}|{k}, to open: {v}""",
     """What opens {k}?|What unlocks {k}?|How do I open {k}?|How do I unlock {k}?|How can I get into {k}?
Which code opens {k}?|What do I type to open {k}?|What must I enter to unlock {k}?|With what can {k} be opened?
What is {k} locked with?|Which code unlocks {k}?|What code do I need for {k}?|What is needed to open {k}?
How does one open {k}?|What is the code that opens {k}?|What did {k} open with?|~{k} opens with|~To open {k}, enter"""),
    ("call", "phone", "person",
     """You can reach {k} at {v}.|Call {k} on {v}.|Dial {v} for {k}.|{k} answers the phone at {v}.|To call {k}, dial {v}.
{k} can be reached under {v}.|{k} can be called at {v}.|Ring {k} on {v}.|Contact {k} at {v}.
The phone number of {k} is {v}.|Phone {v} to talk to {k}.|{k}, phone: {v}|{k} (tel. {v})|Tel. {k}: {v}
If you want to speak to {k}, dial {v}.|{k} left the number {v}.""",
     """How can I reach {k}?|Which number do I call for {k}?|On which number can {k} be reached?
What number do I dial for {k}?|How do I call {k}?|What is the phone number of {k}?|What is {k}'s phone number?
Which phone number does {k} have?|Where can I call {k}?|What is {k}'s number?|Under which number does {k} answer?
Phone number of {k}?|How do I contact {k}?|~You can reach {k} at"""),
    ("room", "n3", "person",
     """{k} is in room {v}.|{k} works in room {v}.|{k} sits in room {v}.|{k} moved to room {v}.|You will find {k} in room {v}.
Room {v} belongs to {k}.|Room {v} is used by {k}.|{k} was assigned room {v}.|{k} sleeps in room {v}.|{k} has room {v}.
The room of {k} is number {v}.|{k}: room {v}|Room {v}: {k}|{k} can be found in room {v}.|They put {k} in room {v}.""",
     """Which room is {k} in?|In which room is {k}?|Where is {k}?|Which room belongs to {k}?|In which room does {k} work?
What is the room number of {k}?|What is {k}'s room number?|Where can I find {k}?|Which room does {k} have?
What room is {k} in?|Which room was assigned to {k}?|Room of {k}?|~{k} is in room"""),
    ("locker", "n3", "person",
     """{k} uses locker {v}.|Locker {v} belongs to {k}.|{k} keeps everything in locker {v}.|{k} was given locker {v}.
{k} has locker {v}.|Locker {v} is for {k}.|{k} shares locker {v} with {p}.|{k} left the bag in locker {v}.
The locker of {k} is number {v}.|Locker {v}: {k}|{k}: locker {v}""",
     """Which locker does {k} use?|Which locker belongs to {k}?|What is {k}'s locker number?|What is the locker number of {k}?
Which locker is {k}'s?|In which locker are the things of {k}?|Which locker does {k} have?
What locker was given to {k}?|~The locker of {k} is"""),
    ("paint", "colour", "place",
     """{k} is painted {v}.|They painted {k} {v}.|{k} was painted {v} by {p}.|{k} is {v}.|{k} looks {v}.|{k} has a {v} colour.
The colour of {k} is {v}.|Last summer {k} became {v}.|{k} will be {v}.|{p} painted {k} {v}.|{k} comes in {v}.
Look for {k}, it is {v}.""",
     """What colour is {k}?|Which colour is {k}?|What colour was {k} painted?|Which colour does {k} have?
What is the colour of {k}?|In which colour is {k} painted?|What color is {k}?|How is {k} painted?
Tell me the colour of {k}.|~The colour of {k} is"""),
    ("called", "name", "person",
     """The dog of {k} is called {v}.|{k} has a dog called {v}.|{k} has a dog named {v}.|{k} named the dog {v}.
{k} calls the dog {v}.|{v} is {k}'s dog.|{v} is the dog of {k}.|{k}'s dog answers to {v}.|{k}'s dog is called {v}.
The dog named {v} belongs to {k}.|{k} walks a dog named {v}.""",
     """What is the dog of {k} called?|What is {k}'s dog called?|What is the name of {k}'s dog?|What did {k} name the dog?
How is the dog of {k} called?|Which dog belongs to {k}?|What does {k} call the dog?|Who is the dog of {k}?
~{k}'s dog is called"""),
    ("cost", "money", "place",
     """{k} costs {v} dollars.|{k} was sold for {v} dollars.|{p} paid {v} dollars for {k}.|The price of {k} is {v} dollars.
You can buy {k} for {v} dollars.|{k} is worth {v} dollars.|They ask {v} dollars for {k}.|{k}: {v} dollars
For {k} you pay {v} dollars.|{k} cost {p} {v} dollars.""",
     """How much does {k} cost?|What does {k} cost?|What is the price of {k}?|How much is {k}?|How many dollars does {k} cost?
For how much was {k} sold?|What is {k} worth?|~The price of {k} in dollars is"""),
    ("born", "year", "person",
     """{k} was born in {v}.|In {v} {k} was born.|Born in {v}, {k} was the youngest of all.|{k} (born {v})
{k} came into the world in {v}.|{k}'s year of birth is {v}.|The year {k} was born was {v}.|{k} has lived since {v}.""",
     """When was {k} born?|In which year was {k} born?|What year was {k} born?|What is {k}'s year of birth?
What is the birth year of {k}?|Which year was {k} born in?|~{k} was born in"""),
    ("lives", "city", "person",
     """{k} lives in {v}.|{k} moved to {v}.|{k} comes from {v}.|{k} has a house in {v}.|{k} settled in {v}.
The home of {k} is in {v}.|{k} stays in {v}.|You will find {k} in {v}.|{k} resides in {v}.|{v} is where {k} lives.
{v} is the home of {k}.""",
     """Where does {k} live?|Which city does {k} live in?|In which city does {k} live?|Where is {k} from?
Where is the home of {k}?|In what city is {k}?|Where did {k} move to?|Which city is the home of {k}?|~{k} lives in"""),
    ("job", "job", "person",
     """{k} works as a {v}.|{k} is a {v}.|{k} became a {v}.|{k} earns money as a {v}.|{k} trained as a {v}.
The {v} in the village is {k}.|By trade, {k} is a {v}.|{k} found work as a {v}.|They hired {k} as a {v}.
Everyone knows {k} the {v}.""",
     """What does {k} do for a living?|What is {k}'s job?|What is {k}'s profession?|What does {k} work as?
What is the job of {k}?|What is the profession of {k}?|Which job does {k} have?|What did {k} become?|~{k} works as a"""),
    ("likes", "food", "person",
     """{k} likes {v} best.|{k} loves {v}.|{k} eats {v} every day.|{k} ordered {v}.|{k} always cooks {v}.
The favourite food of {k} is {v}.|{k} prefers {v}.|Nothing tastes better to {k} than {v}.
{k} cannot get enough of {v}.|For lunch {k} had {v}.""",
     """What does {k} like best?|What does {k} like to eat?|What is {k}'s favourite food?|Which food does {k} like?
What does {k} eat?|What does {k} love?|Which food does {k} prefer?|What is the favourite food of {k}?|~{k} likes"""),
    ("train", "n2", "city",
     """The train to {k} leaves from platform {v}.|Platform {v} is for the train to {k}.
Trains to {k} depart from platform {v}.|For {k}, go to platform {v}.|If you travel to {k}, use platform {v}.
The {k} train stops at platform {v}.|{k}: platform {v}|Platform {v}: {k}|Passengers to {k} please go to platform {v}.""",
     """From which platform does the train to {k} leave?|Which platform is the train to {k}?|Which platform for {k}?
What is the platform for {k}?|Where does the train to {k} leave?|Which platform serves {k}?
On which platform is the {k} train?|~The train to {k} leaves from platform"""),
    ("count", "n3", "place",
     """There are {v} boxes in {k}.|{k} holds {v} boxes.|{k} contains {v} boxes.|{p} counted {v} boxes in {k}.
In {k} there are {v} boxes.|We found {v} boxes in {k}.|{v} boxes are stored in {k}.|{k} has {v} boxes.
Boxes in {k}: {v}|{k}: {v} boxes""",
     """How many boxes are in {k}?|How many boxes does {k} hold?|How many boxes does {k} have?
How many boxes did they find in {k}?|What is the number of boxes in {k}?|How many boxes are there in {k}?
Count the boxes in {k}.|~The number of boxes in {k} is"""),
]

LEADS = ["Note: ", "Reminder: ", "By the way, ", "For the record, ", "P.S. ", "Important: ", "Also, ", "In case you forgot: ", "FYI: ",
         "Update: ", "On another note, ", "* ", "- ", "> ", "# ", "// ", "Remember: ", "Attention: ", "One more thing: ", "Memo: ", "Notice: "]
TRAILERS = [" Do not lose it.", " Keep it safe.", " Please write it down.", " {p} confirmed this.", " It will not change this year.", " Thank you.",
            " Ask {p} if in doubt.", " Please do not share it.", " This is correct.", " (checked by {p})", " That was all.", " See also the notes of {p}."]
