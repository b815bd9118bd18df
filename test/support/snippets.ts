/** The fenced blocks of a Markdown page, for the code that runs them. */

export interface Snippet {
  /** The first word after the fence: `sh`, `ts`, `json`; empty when there is none. */
  readonly language: string
  /** The rest of the fence line: ` ```ts file=hello.ts` has `file=hello.ts`. */
  readonly info: string
  /** The text between the fences, each line with its end; where the fence is indented, without the indentation. */
  readonly text: string
  /** The line of the opening fence in the page, from 1. */
  readonly line: number
  /** The HTML comment right above the fence, without its dashes: readers do not see it. */
  readonly comment: string | undefined
}

const opening = /^( *)(`{3,}|~{3,})([^`]*)$/

/** Lists the fenced blocks of a page, in order. A fence that is not closed runs to the end of the page, as in Markdown. */
export function snippetsOf(page: string): readonly Snippet[] {
  const lines = page.replace(/\n$/, '').split('\n')
  const snippets: Snippet[] = []
  for (let at = 0; at < lines.length; at++) {
    const found = opening.exec(lines[at]!)
    if (found === null) continue
    const [, indent, fence, rest] = found
    const comment = commentAbove(lines, at)
    const line = at + 1
    const text: string[] = []
    for (at++; at < lines.length && !closes(lines[at]!, fence!); at++)
      text.push(unindented(lines[at]!, indent!))
    const [language = '', ...info] = rest!.trim().split(/\s+/)
    snippets.push({
      language,
      info: info.join(' '),
      text: text.map((each) => `${each}\n`).join(''),
      line,
      comment,
    })
  }
  return snippets
}

function closes(line: string, fence: string): boolean {
  const bare = line.trim()
  return bare.length >= fence.length && bare === fence[0]!.repeat(bare.length)
}

function unindented(line: string, indent: string): string {
  return line.startsWith(indent) ? line.slice(indent.length) : line.trimStart()
}

/** A comment of one line, with at most an empty line between it and the fence. */
function commentAbove(lines: readonly string[], at: number): string | undefined {
  const above = lines[at - 1] === '' ? lines[at - 2] : lines[at - 1]
  return /^\s*<!--\s*(.*?)\s*-->\s*$/.exec(above ?? '')?.[1]
}

/** The output that comments at line ends promise: `# {"status":"running","retryInMs":…}`, with … for any text. */
export function promisesIn(text: string): readonly { readonly text: string; readonly pattern: RegExp }[] {
  return [...text.matchAll(/\S +# ([{"].*)$/gm)].map(([, promised]) => ({
    text: promised!,
    pattern: new RegExp(
      promised!
        .trim()
        .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
        .replaceAll('…', '[^\\n]*'),
    ),
  }))
}
