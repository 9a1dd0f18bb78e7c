/* Colour for code, line by line. Small on purpose: comments, strings, numbers, keywords and names that are called.
   What it does not know it leaves as it is. */

const C_LIKE = { line: ["//"], block: [["/*", "*/"]], quotes: ['"', "'", "`"] };
const HASH = { line: ["#"], block: [], quotes: ['"', "'"] };

function words(text) {
  return new Set(text.split(" "));
}

const LANGUAGES = {
  python: {
    ...HASH,
    block: [
      ['"""', '"""'],
      ["'''", "'''"],
    ],
    blockIsString: true,
    keys: words(
      "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield None True False self",
    ),
  },
  script: {
    ...C_LIKE,
    keys: words(
      "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in instanceof interface keyof let namespace never new null number of private protected public readonly return set static string super switch this throw true try type typeof undefined unknown var void while yield",
    ),
  },
  c: {
    ...C_LIKE,
    quotes: ['"', "'"],
    keys: words(
      "auto bool break case char class const constexpr continue default define delete do double else enum explicit extern false float for friend goto if ifdef ifndef include inline int long namespace new noexcept nullptr operator override private protected public return short signed sizeof static static_cast struct switch template this throw true try typedef typename union unsigned using virtual void volatile while abstract extends final finally implements import instanceof interface package super synchronized throws catch string var foreach in is out ref async await fun val when object data sealed",
    ),
  },
  go: {
    ...C_LIKE,
    keys: words(
      "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false iota string int int64 error bool byte any make len append",
    ),
  },
  rust: {
    ...C_LIKE,
    quotes: ['"'],
    keys: words(
      "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while Some None Ok Err String Vec Option Result Box",
    ),
  },
  shell: {
    ...HASH,
    keys: words(
      "if then else elif fi for in do done while until case esac function return local export set unset readonly echo cd exit eval exec source trap shift test true false",
    ),
  },
  ruby: {
    ...HASH,
    keys: words(
      "alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require attr_accessor puts",
    ),
  },
  data: { ...HASH, keys: words("true false null yes no on off") },
  json: { line: [], block: [], quotes: ['"'], keys: words("true false null") },
  sql: {
    line: ["--"],
    block: [["/*", "*/"]],
    quotes: ["'", '"'],
    anyCase: true,
    keys: words(
      "select from where insert into values update set delete create table index view drop alter add primary key foreign references not null unique default and or in is like between join left right inner outer on group by order having limit offset as distinct union all case when then else end begin commit rollback with integer text real blob",
    ),
  },
  css: {
    line: [],
    block: [["/*", "*/"]],
    quotes: ['"', "'"],
    keys: words("important media supports import from to var calc"),
  },
  markup: { line: [], block: [["<!--", "-->"]], quotes: ['"'], keys: words(""), tags: true },
};

const BY_ENDING = new Map(
  Object.entries({
    python: "py pyi pyw",
    script: "js jsx mjs cjs ts tsx mts",
    c: "c h cc cpp cxx hpp hh cs java kt kts swift scala php m",
    go: "go",
    rust: "rs",
    shell: "sh bash zsh fish env dockerfile makefile mk",
    ruby: "rb rake gemspec",
    data: "yaml yml toml ini cfg conf properties tf",
    json: "json jsonc jsonl ndjson",
    sql: "sql",
    css: "css scss less",
    markup: "html htm xml svg vue xhtml",
  }).flatMap(([name, endings]) => endings.split(" ").map((ending) => [ending, name])),
);

function languageOf(path) {
  const file = str(path).split("/").pop().toLowerCase();
  return LANGUAGES[BY_ENDING.get(file.split(".").pop()) || BY_ENDING.get(file)] || null;
}

function languageCalled(name) {
  const known = {
    python: "py",
    javascript: "js",
    typescript: "ts",
    rust: "rs",
    ruby: "rb",
    console: "sh",
    shell: "sh",
    golang: "go",
    "c++": "cpp",
  };
  const word = str(name).trim().toLowerCase();
  return languageOf("x." + (Object.hasOwn(known, word) ? known[word] : word));
}

const WORD = /[A-Za-z_$][\w$]*/y,
  NUMBER = /(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)/y;
const LONGEST_LINE = 4000;

/* The pieces of one line as [class, text], and what is still open at its end (the mark that closes it). */
function colourLine(line, language, open) {
  if (!language || line.length > LONGEST_LINE) return [[["", line]], null];
  const pieces = [];
  let place = 0,
    bare = 0;
  const push = (kind, end) => {
    if (bare < place) pieces.push(["", line.slice(bare, place)]);
    pieces.push([kind, line.slice(place, end)]);
    place = bare = end;
  };
  const blockKind = language.blockIsString ? "str" : "com";
  if (open) {
    const end = line.indexOf(open);
    if (end < 0) return [[[blockKind, line]], open];
    push(blockKind, end + open.length);
  }
  while (place < line.length) {
    const block = language.block.find(([start]) => line.startsWith(start, place));
    if (block) {
      const end = line.indexOf(block[1], place + block[0].length);
      if (end < 0) {
        push(blockKind, line.length);
        return [pieces, block[1]];
      }
      push(blockKind, end + block[1].length);
    } else if (language.line.some((mark) => line.startsWith(mark, place))) push("com", line.length);
    else if (language.quotes.includes(line[place])) push("str", endOfString(line, place));
    else place = colourWord(line, place, language, push);
  }
  if (bare < line.length) pieces.push(["", line.slice(bare)]);
  return [pieces, null];
}

function colourWord(line, place, language, push) {
  NUMBER.lastIndex = WORD.lastIndex = place;
  const number = NUMBER.exec(line);
  if (number) {
    push("num", place + number[0].length);
    return place + number[0].length;
  }
  const word = WORD.exec(line);
  if (!word) return place + 1;
  const end = place + word[0].length;
  const key = language.anyCase ? word[0].toLowerCase() : word[0];
  if (language.keys.has(key)) push("key", end);
  else if (line[end] === "(") push("fun", end);
  else if (language.tags && /[<\/]/.test(line[place - 1] || "")) push("key", end);
  return end;
}

function endOfString(line, start) {
  for (let place = start + 1; place < line.length; place++) {
    if (line[place] === "\\") place++;
    else if (line[place] === line[start]) return place + 1;
  }
  return line.length;
}

/* Nodes for a piece of code of several lines. */
function coloured(text, language) {
  if (!language || text.length > 100000) return content(text);
  let open = null;
  return str(text)
    .split("\n")
    .flatMap((line, place) => {
      const [pieces, still] = colourLine(line, language, open);
      open = still;
      return [...(place ? [document.createTextNode("\n")] : []), ...pieceNodes(pieces)];
    });
}

function pieceNodes(pieces) {
  return pieces.flatMap(([kind, text]) => (kind ? [h("span." + kind, {}, exact(text))] : exact(text)));
}
