import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisesIn, type Snippet, snippetsOf } from '../support/snippets.ts'
import { findSeen, isSeen } from './seen.ts'
import { Terminal, type TerminalPlace } from './terminal.ts'

/**
 * Follows a page as a reader would, from its first line to its last. The page is written for people; this is what its blocks mean here:
 *
 *     sh                       typed into a terminal, and waited for; it must end well. A comment behind a command that begins with { or "
 *                              must be in what it prints, where … is any text
 *     sh stays                 typed, and left running; Ctrl+C comes when the next block is for that terminal, or at the end
 *     sh terminal=server       typed into another terminal than the usual one
 *     ts file=tutorial/a.ts    written to that file
 *     ts                       a piece of a program, to be read; test/docs runs those
 *     output                   what the last block of the terminal has printed: all of it, or, of one that stays, lines of it
 *     <http://127.0.0.1/…>     in the text: opened as a browser does
 *
 * and a comment right above a block, which readers do not see:
 *
 *     <!-- elsewhere: why -->  not followed here
 */
export async function followPage(
  page: string,
  place: TerminalPlace,
  say: (line: string) => void,
): Promise<void> {
  await using terminals = createTerminals(place)
  for (const step of stepsOf(page)) {
    const begunAt = performance.now()
    let did: string
    try {
      did =
        step.url === undefined
          ? await followBlock(step.snippet, terminals, place.folder)
          : await openAddress(step.url)
    } catch (error) {
      throw new Error(`line ${step.line}: ${(error as Error).message}`, { cause: error })
    }
    say(`line ${step.line}: ${did} (${Math.round(performance.now() - begunAt)} ms)`)
  }
}

type Step = { readonly line: number } & (
  | { readonly snippet: Snippet; readonly url?: undefined }
  | { readonly url: string }
)

function stepsOf(page: string): readonly Step[] {
  const blocks: Step[] = snippetsOf(page).map((snippet) => ({ line: snippet.line, snippet }))
  const addresses: Step[] = page.split('\n').flatMap((text, at) => {
    return [...text.matchAll(/<(http:\/\/127\.0\.0\.1[^>]*)>/g)].map(([, url]) => ({
      line: at + 1,
      url: url!,
    }))
  })
  return [...blocks, ...addresses].sort((a, b) => a.line - b.line)
}

interface Terminals extends AsyncDisposable {
  named(name: string | undefined): Terminal
}

function createTerminals(place: TerminalPlace): Terminals {
  const opened = new Map<string, Terminal>()
  return {
    named(name = '') {
      const terminal = opened.get(name) ?? new Terminal(place)
      opened.set(name, terminal)
      return terminal
    },
    async [Symbol.asyncDispose]() {
      // In reverse order: a program that depends on a server ends before it.
      for (const terminal of [...opened.values()].reverse()) await terminal[Symbol.asyncDispose]()
    },
  }
}

/** For reading, not for doing. */
const shownOnly = new Set(['', 'ts', 'json'])

async function followBlock(snippet: Snippet, terminals: Terminals, folder: string): Promise<string> {
  const { language, text, comment = '' } = snippet
  if (comment.startsWith('elsewhere: ')) return `left out: ${comment.slice('elsewhere: '.length)}`
  const settings = settingsOf(snippet)
  const terminal = terminals.named(settings.get('terminal'))
  if (language === 'output') {
    if (terminal.isBusy) await terminal.waitFor((printed) => findSeen(text, printed))
    else if (!isSeen(text, terminal.printed)) {
      throw new Error(`the page shows\n${text}and what was seen is\n${terminal.printed}`)
    }
    return 'seen'
  }
  if (language === 'sh') {
    await terminal.interrupt()
    if (settings.has('stays')) terminal.start(text)
    else keepsPromises(text, await terminal.run(text))
    return `${settings.has('stays') ? 'started' : 'done'}: ${text.split('\n')[0]}`
  }
  const file = settings.get('file')
  if (file !== undefined) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
    return `wrote ${file}`
  }
  if (shownOnly.has(language)) return 'for reading'
  throw new Error(`a block of "${language}" cannot be followed`)
}

/** ` ```sh terminal=server stays` has two: `terminal` and `stays`. */
function settingsOf({ info }: Snippet): ReadonlyMap<string, string> {
  const words = info === '' ? [] : info.split(' ')
  const settings = new Map(words.map((word) => [word.split('=')[0]!, word.split('=').slice(1).join('=')]))
  const unknown = [...settings.keys()].find((name) => !['stays', 'terminal', 'file'].includes(name))
  if (unknown !== undefined) throw new Error(`unknown word "${unknown}" behind the fence`)
  return settings
}

async function openAddress(url: string): Promise<string> {
  const reply = await fetch(url, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(10_000) })
  const page = await reply.text()
  if (!reply.ok || !page.includes('<html')) throw new Error(`${url} answers ${reply.status} and no page`)
  return `opened ${url}`
}

/** In the order in which they stand. */
function keepsPromises(text: string, printed: string): void {
  let rest = printed
  for (const { text: promised, pattern } of promisesIn(text)) {
    const found = pattern.exec(rest)
    if (found === null) throw new Error(`it promises ${promised}, and said:\n${printed}`)
    rest = rest.slice(found.index + found[0].length)
  }
}
