import { writeSync } from 'node:fs'

/**
 * Takes over a terminal for a while: the alternate screen, no cursor, each key at once. It restores the terminal at
 * `close`, at exit, and before an uncaught error is printed; only SIGKILL prevents that.
 */
export interface Terminal extends Disposable {
  readonly size: Size
  /** Shows these lines; writes only the changed ones. */
  show(lines: readonly string[]): void
  /** Forgets the shown lines, so that `show` writes all lines again. */
  forget(): void
}

export interface TerminalEvents {
  /** The keys of the user, as the terminal sends them. */
  typed(text: string): void
  resized(): void
  /** The terminal is gone, as when its window was closed. */
  gone(): void
}

const enter = '\u001b[?1049h\u001b[?25l\u001b[2J'
const leave = '\u001b[0m\u001b[?25h\u001b[?1049l'

/** Takes the terminal of this process over. Both streams must be terminals. */
export function openTerminal(events: TerminalEvents): Terminal {
  const { stdin, stdout } = process
  let shown: readonly string[] = []
  let isOpen = true

  const restore = () => {
    if (!isOpen) return
    isOpen = false
    try {
      stdin.setRawMode(false)
      writeSync(stdout.fd, leave)
    } catch {
      // The terminal itself is gone.
    }
  }
  // Node prints the error after this, on the restored screen.
  const crashed = () => restore()
  const resized = () => {
    shown = []
    stdout.write('\u001b[0m\u001b[2J')
    events.resized()
  }
  const heard = (text: string) => events.typed(text)
  const gone = () => events.gone()

  process.on('exit', restore).on('uncaughtExceptionMonitor', crashed)
  stdout.on('resize', resized).on('error', gone)
  stdin.setRawMode(true)
  stdin.setEncoding('utf8').on('data', heard).on('end', gone).on('error', gone).resume()
  stdout.write(enter)

  return {
    get size() {
      return { columns: Math.max(20, stdout.columns || 80), rows: Math.max(5, stdout.rows || 24) }
    },
    show(lines) {
      const written = changes(shown, lines)
      shown = lines
      if (isOpen && written !== '') stdout.write(written)
    },
    forget() {
      shown = []
      stdout.write('\u001b[0m\u001b[2J')
    },
    [Symbol.dispose]() {
      process.off('exit', restore).off('uncaughtExceptionMonitor', crashed)
      stdout.off('resize', resized)
      // A closed terminal may still emit an error, which needs no handling.
      stdin.off('data', heard).pause()
      restore()
    },
  }
}

/**
 * The shown lines. An unchanged line is not written again, so the screen does not flicker and an idle view costs almost
 * nothing.
 */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** The output that changes a terminal from `before` to `after`; '' if nothing changed. */
export function changes(before: readonly string[], after: readonly string[]): string {
  let written = ''
  const rows = Math.max(before.length, after.length)
  for (let row = 0; row < rows; row++) {
    const line = after[row] ?? ''
    if (before[row] === line) continue
    // Reset attributes first, because erased cells take the present colour.
    written += `\u001b[${row + 1};1H\u001b[0m\u001b[2K${line}`
  }
  // A synchronized update: terminals that do not know it ignore it.
  return written === '' ? '' : `\u001b[?2026h${written}\u001b[0m\u001b[?2026l`
}

/** Colours and weights. Without colour there are none, so the chosen row also has a mark. */
export interface Style {
  strong(text: string): string
  faint(text: string): string
  chosen(text: string): string
  alert(text: string): string
}

export function createStyle(hasColour: boolean): Style {
  const within = (begin: string) => (text: string) => (hasColour ? `\u001b[${begin}m${text}\u001b[0m` : text)
  return { strong: within('1'), faint: within('2'), chosen: within('7'), alert: within('33') }
}

/** The sequences that a terminal sends for keys without a character. */
const sequences: readonly (readonly [string, string])[] = [
  ['\u001b[A', 'up'],
  ['\u001bOA', 'up'],
  ['\u001b[B', 'down'],
  ['\u001bOB', 'down'],
  ['\u001b[5~', 'pageup'],
  ['\u001b[6~', 'pagedown'],
  ['\u001b[H', 'home'],
  ['\u001b[1~', 'home'],
  ['\u001bOH', 'home'],
  ['\u001b[F', 'end'],
  ['\u001b[4~', 'end'],
  ['\u001bOF', 'end'],
  ['\u0003', 'interrupt'],
  ['\u0004', 'interrupt'],
  ['\u000c', 'redraw'],
  ['\r', 'enter'],
  ['\n', 'enter'],
  ['\u007f', 'backspace'],
  ['\b', 'backspace'],
  ['\u0015', 'clear'],
]

/**
 * Decodes the input of a terminal: the names above, `escape`, or the character itself. Unknown sequences are left out.
 */
export function decodeKeys(sent: string): readonly string[] {
  const keys: string[] = []
  let rest = sent
  while (rest !== '') {
    const known = sequences.find(([sequence]) => rest.startsWith(sequence))
    if (known) {
      keys.push(known[1])
      rest = rest.slice(known[0].length)
      continue
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal sends
    const unknown = /^\u001b(?:\[[0-9;?]*[ -/]*[@-~]|O.|[^\u001b[O])/.exec(rest)
    if (unknown) {
      rest = rest.slice(unknown[0].length)
      continue
    }
    const [character] = rest as unknown as readonly [string]
    const whole = String.fromCodePoint(rest.codePointAt(0)!)
    if (character === '\u001b') keys.push('escape')
    else if (whole >= ' ') keys.push(whole)
    rest = rest.slice(whole.length)
  }
  return keys
}
