import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Where a terminal stands, and what it knows. */
export interface TerminalPlace {
  readonly folder: string
  /** For the blocks that are typed; not the reader's. */
  readonly scratch: string
  readonly env: NodeJS.ProcessEnv
  /** The time limit for a command, and for one awaited line. */
  readonly limitMs: number
}

let blockCount = 0

/**
 * A shell that lives as long as the page is followed, so that later blocks see the exports of earlier ones. It leads a
 * separate process group: Ctrl+C reaches all its children, and closing it ends them all.
 */
export class Terminal implements AsyncDisposable {
  readonly #place: TerminalPlace
  readonly #shell: ChildProcess
  readonly #closed: Promise<unknown>
  #printed = ''
  /** Where the output of the block that was typed last begins, and how far it was compared with the page. */
  #from = 0
  #mark: string | undefined

  constructor(place: TerminalPlace) {
    this.#place = place
    this.#shell = spawn('bash', ['--noprofile', '--norc'], {
      cwd: place.folder,
      env: place.env,
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#closed = once(this.#shell, 'close')
    this.#shell.stdout!.setEncoding('utf8').on('data', (text: string) => (this.#printed += text))
    // What is printed and what is complained about come in their order; Ctrl+C ends the command, not the shell.
    this.#shell.stdin!.write('exec 2>&1; trap : INT\n')
  }

  /** Whether what was typed last has not ended. */
  get isBusy(): boolean {
    return this.#mark !== undefined && this.#endOf(this.#mark) === undefined
  }

  /** What was printed since the last block was typed, or since the last line that was waited for. */
  get printed(): string {
    const end = this.#mark === undefined ? undefined : this.#endOf(this.#mark)
    return this.#printed.slice(this.#from, end?.at)
  }

  /** Types a block and waits until all of it has ended well. */
  async run(block: string): Promise<string> {
    const mark = this.#type(block, true)
    await this.#until(() => this.#endOf(mark) !== undefined, 'it did not end')
    const { at, code } = this.#endOf(mark)!
    const printed = this.#printed.slice(this.#from, at)
    if (code !== 0) throw new Error(`it ended with ${code}, and said:\n${printed}`)
    return printed
  }

  /** Types a block that stays. */
  start(block: string): void {
    this.#type(block, false)
  }

  /** Waits until what was printed satisfies; `find` says where that ends, and what follows is for the next to wait. */
  async waitFor(find: (printed: string) => number | undefined): Promise<void> {
    const look = () => find(this.printed)
    await this.#until(() => look() !== undefined || !this.isBusy, 'it was not seen')
    const end = look()
    if (end === undefined) throw new Error(`it ended, and said:\n${this.printed}`)
    this.#from += end
  }

  /** Ctrl+C, until the command has ended: well, or by the signal itself. */
  async interrupt(): Promise<void> {
    if (!this.isBusy) return
    process.kill(-this.#shell.pid!, 'SIGINT')
    await this.#until(() => !this.isBusy, 'it did not end after Ctrl+C')
    const { code } = this.#endOf(this.#mark!)!
    if (code !== 0 && code !== 130)
      throw new Error(`it ended with ${code} after Ctrl+C, and said:\n${this.printed}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.interrupt()
    } finally {
      this.#shell.stdin!.end()
      const timer = setTimeout(() => this.#killAll(), 5_000)
      await this.#closed
      clearTimeout(timer)
      // Whatever a block left in the background.
      this.#killAll()
    }
  }

  #killAll(): void {
    try {
      process.kill(-this.#shell.pid!, 'SIGKILL')
    } catch {
      // The group has no process left.
    }
  }

  /** A block is sourced, so that it is the shell's own; standard input is not, or a command would read the next block. */
  #type(block: string, strictly: boolean): string {
    if (this.isBusy) throw new Error('the terminal is busy')
    const file = join(this.#place.scratch, `block-${++blockCount}.sh`)
    writeFileSync(file, block)
    const mark = `-- block ${blockCount} ended with`
    this.#from = this.#printed.length
    this.#mark = mark
    const end = `printf '\\n%s %s\\n' '${mark}' $?`
    // `set -e` would end the shell itself; so its last word is said on the way out.
    const strict = `set -e; trap "${end.replaceAll('$', '\\$')}" EXIT; . '${file}' </dev/null; trap - EXIT; set +e; ${end}`
    this.#shell.stdin!.write(strictly ? `${strict}\n` : `. '${file}' </dev/null; ${end}\n`)
    return mark
  }

  #endOf(mark: string): { readonly at: number; readonly code: number } | undefined {
    const found = new RegExp(`\\n${mark} (\\d+)\\n`).exec(this.#printed)
    return found === null ? undefined : { at: found.index, code: Number(found[1]) }
  }

  async #until(look: () => boolean, otherwise: string): Promise<void> {
    const endsAt = performance.now() + this.#place.limitMs
    while (!look()) {
      if (performance.now() > endsAt) {
        throw new Error(`${otherwise} within ${this.#place.limitMs} ms; it said:\n${this.printed}`)
      }
      await sleep(20)
    }
  }
}
