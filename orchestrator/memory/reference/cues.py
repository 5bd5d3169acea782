"""The lexicon: by which words people mark a decision, a rejection, a correction, a cause, a wish, a hand-over.

General English of working conversations, no word of any project. Pure. Each cue names itself, so that a
candidate can say why it exists.
"""

from __future__ import annotations

import re
from typing import Final


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile(r"(?i)(?<![\w])(?:" + "|".join(parts) + r")(?![\w])")


CUES: Final[dict[str, re.Pattern[str]]] = {
    "decision": _any(
        r"decided|decision|we(?:'ve| have)? (?:agreed|settled|chose|picked)|agreed|agreement|settled|resolved to",
        r"from now on|from today|as of (?:today|now|this|next)|going forward|henceforth|in future",
        r"we(?:'ll| will| are going to)? (?:use|go with|stick (?:to|with)|keep to|switch(?:ed)? to|mov(?:e|ed) to|standardi[sz]e on)",
        r"let(?:'s| us) (?:use|go with|keep|make|call|take)|the rule is|rule (?:from|as of|for)|ruling|the convention|policy",
        r"signed off|approved|final(?:ly)?(?: answer| version| word)?|it is settled|shall",
    ),
    "correction": _any(
        r"no longer|not [\w\" /'-]{1,30} any ?more|any ?more|withdrawn|revoked|void|obsolete|outdated|superseded|deprecated",
        r"forget|scrap|replaces?d?|replacement|instead|rather than|takes? over|took over|taken over|hand(?:s|ed)? over to",
        r"(?:earlier|old|previous|former|first|last) (?:rule|decision|agreement|value|version|convention|name|plan|idea)",
        r"change of (?:plan|mind)|changed? (?:my|our|their) mind|reverses?d?|actually|correction|was wrong|is wrong|were wrong",
        r"new (?:agreement|rule|decision|ruling|limit|value|name|convention)|now (?:it|they|we|is|are|has|have)",
        r"renamed?|revised?|updated? (?:rule|decision|value)|on second thought|no,? wait|not .{1,40} but",
    ),
    "withdrawal": _any(
        r"no longer|any ?more|withdrawn|revoked|void|obsolete|outdated|superseded|deprecated|forget|scrap(?:ped)?|replaced",
        r"is gone|are gone|is dead|drop(?:ped)? the|dropping the|abolished|repealed|does not hold|do not hold|was wrong|is wrong|were wrong",
        r"(?:earlier|old|previous|former) (?:rule|decision|agreement|value|version|convention|name|plan|idea)",
        r"instead of|rather than|in place of|replaces|used to",
    ),
    "veto": _any(
        r"never|must not|mustn't|may not|do not|don't|cannot use|can't use|not allowed|forbidden|prohibited|banned|no .{1,40} (?:ever|at all|either)",
        r"reject(?:ed|s)?|ruled out|decided against|avoid|stay away from|refused? to use|nothing may|nobody may|no one may",
        r"does(?:n't| not) work (?:for|here|with)|is not to|not to be|unacceptable|out of the question|no more|hands off|leave .{1,40} alone|must never|can(?:not|'t) be",
    ),
    "constraint": _any(
        r"must|have to|has to|need(?:s|ed)? to|required?|requirement|always|only|at most|at least|no more than|no less than|not more than",
        r"up to|maximum|minimum|limit(?:ed)?|exactly|every .{1,30} (?:gets|has|must|should)|each .{1,30} (?:gets|has|must|should)|stays? (?:as|with|the|where|in)",
        r"remains?|keeps?|should (?:not|never|be|always)|leave .{1,40} alone|not touched|untouched|begins? with|starts? with|ends? with",
    ),
    "root_cause": _any(
        r"because|caused by|the (?:root )?cause|root cause|due to|turn(?:s|ed) out|the reason|the culprit",
        r"the problem (?:was|is)|the bug (?:was|is)|traced (?:it )?(?:back )?to|came from|comes from|stems from|so the .{1,40} (?:failed|broke|died)",
        r"by mistake|collid(?:es|ed)|clash(?:es|ed)?|that is why|which is why",
    ),
    "preference": _any(
        r"i (?:like|prefer|want|would like|need|read|hate|find|use)|i'd (?:like|prefer|rather)|we (?:like|prefer|want)|prefers?|preference",
        r"for me|to me|works for me|wants?|likes?|please (?:use|write|keep|no|don't|do not)|asked for",
    ),
    "wish": _any(
        r"i (?:really |always |strongly |very much )?(?:prefer|like|hate|love|dislike)|i(?:'d| would) rather|my preference|i cannot stand|i can't stand",
    ),
    "workstream": _any(
        r"left (?:on|for|to do)|to ?do|next (?:is|comes|one|step|up|on)|is next|comes? (?:next|last|first|after)|still (?:open|missing|to do|pending|waits?)",
        r"not (?:yet )?(?:merged|written|started|finished|done)|waits? for|waiting for|blocked|pending|in progress",
        r"pick(?:s|ed)? up|go(?:es)? on (?:from|with)|hand(?:ed|ing)? over|takes? over from here|left off|half done",
        r"(?:first|second|third|fourth|fifth|last) (?:one|of the|is|and|has)|remaining|left to|outstanding",
    ),
    "fact": _any(
        r"belongs? to|is owned by|owns?|means?|stands? for|is called|are called|is named|counts? as|consists? of|is (?:divided|measured|written|booked)",
        r"are (?:divided|measured|written|booked)|returns?|responsible for|in charge of|looks? after|maintained by|has an? |have an? |is an? |are (?:all )?in",
    ),
    "hypothetical": _any(
        r"could we|we could|i could|could (?:be|have)|might|maybe|perhaps|what if|one option|an option|suppose|would it|should we|shall we|proposal|i propose",
        r"i suggest|suggestion|how about|what about|not (?:yet )?decided|undecided|to be (?:decided|discussed)|thinking (?:of|about)|sounds (?:fine|good|ok)",
    ),
    "contested": _any(
        r"contradicts?|conflicts? with|which (?:one )?(?:holds|counts|is it)|unclear|not sure which",
        r"not (?:confirmed|verified)|needs? (?:confirmation|clarification)|waiting for (?:a )?(?:ruling|confirmation|word)",
    ),
    "acknowledgement": _any(
        r"noted|agreed|understood|settled then|replaced|written down|recorded|will do|got it|good to know|makes sense|right|so|then|by|ok(?:ay)?|confirmed",
    ),
    "partial": _any(
        r"(?:the )?(?:others?|rest|remaining ones?) (?:stay|stays|keep|keeps|remain|remains)|stay(?:s)? where|keep(?:s)? (?:theirs|its|his|hers)|as (?:it|they) (?:is|are|was|were)",
        r"stays? as|only the|except|apart from|everything else",
    ),
}

_ORDER: Final = re.compile(
    r"(?i)^(?:please\s+|can you\s+|could you\s+|would you\s+|now\s+|then\s+|and\s+|also\s+)?"
    r"(?:add|bump|check|clean|close|commit|create|delete|deploy|explain|find|fix|format|generate|give|go|have a look|install|list|look|merge|"
    r"open|print|publish|pull|push|raise|rebase|regenerate|remove|rerun|restart|revert|rotate|run|send|show|sort|start|tag|test|tidy|tell|try|"
    r"update|upgrade|write)\b"
)
_PROBLEM: Final = re.compile(
    r"(?i)\b(?:fails?|failed|failing|breaks?|broken|broke|crash(?:es|ed)?|error|errors|wrong|slow|hangs?|complains?|complaints?|"
    r"refused|refuses|rejects?|vanish(?:es|ed)?|cannot|can't|lost|lose[sd]?|drops?|missing|cut off)\b"
)


def cues_of(sentence: str) -> frozenset[str]:
    """Returns the names of the cues that a sentence carries."""
    return frozenset(name for name, pattern in CUES.items() if pattern.search(sentence))


def is_question(sentence: str) -> bool:
    """Tells whether a sentence asks."""
    return sentence.rstrip("\"') ").endswith("?")


def is_order(sentence: str) -> bool:
    """Tells whether a sentence asks for a chore: an imperative without anything lasting in it."""
    return bool(_ORDER.match(sentence))


def is_problem(text: str) -> bool:
    """Tells whether a text reports that something goes wrong."""
    return bool(_PROBLEM.search(text))
