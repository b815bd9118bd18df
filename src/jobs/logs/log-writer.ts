import { type NewLogLine, type Note, type NoteStore, noteLimits } from './log-store.ts'
import { encodeProgress, makeLogLine, mergeProgress, type SaidProgress } from './progress.ts'

/** What one attempt has to say; the token is for whoever must show that it is its attempt. */
export interface AttemptNote extends Note {
  readonly token: string
}

/** Where notes of attempts go, and come from. */
export interface NoteKeeper extends Omit<NoteStore, 'add'> {
  add(notes: readonly AttemptNote[]): Promise<void>
}

/** Whose notes they are. */
export interface NoteTaker {
  readonly jobId: string
  readonly token: string
  readonly attempt: number
}

/**
 * What the handlers of one worker say of their jobs, on its way to the store. Nobody waits for it and it never throws.
 * What is said within a quarter of a second goes in one write, and what an ended attempt said goes at once, just before
 * its end is written. While the store is away, the latest progress and the first lines are kept, up to what an attempt
 * may keep and what all of them together may take; the rest is dropped.
 */
export interface Notebook {
  progress(page: Page, update: unknown): void
  line(page: Page, text: unknown, level: unknown): void
  /** A page for one attempt; it costs nothing until something is written on it. */
  open(taker: NoteTaker): Page
  /** The attempt ended: what is on its page goes now, and nothing more is written on it. */
  close(page: Page): void
  /** Resolves when everything has gone or was given up. */
  idle(timeoutMs: number): Promise<void>
}

/** What an attempt has said and the store has not heard yet. */
export interface Page {
  readonly taker: NoteTaker
  said: SaidProgress | undefined
  /** There is news in `said`. */
  isNew: boolean
  logs: NewLogLine[]
  /** Of the attempt so far, counted as the store counts. */
  lineCount: number
  lineBytes: number
  /** Beyond what is kept; the store only counts them. */
  dropped: number
  /** Lines were dropped for want of room, so all further ones are. */
  isMuted: boolean
  isClosed: boolean
  failures: number
}

const flushMs = 250
/** A closed page that could not be written so often is given up: about five seconds. */
const maxFailures = 20
/** All pages together; beyond it lines are dropped. */
const maxWaitingBytes = 8 * 1_048_576
/** So many pages wait while the store is away; beyond it the oldest of those that ended is given up. */
const maxWaitingPages = 5_000
/** So many pages go in one write, and so many dropped lines are told of at once. */
const maxPages = 200
const maxBlanks = 1_000

export function createNotebook(
  keeper: Pick<NoteKeeper, 'add'>,
  onTrouble: (error: unknown) => void,
): Notebook {
  /** Those with something to say. */
  const dirty = new Set<Page>()
  const idlers: (() => void)[] = []
  let waitingBytes = 0
  let isWriting = false
  let timer: NodeJS.Timeout | undefined
  let isSoon = false

  function touch(page: Page): void {
    dirty.add(page)
    if (dirty.size > maxWaitingPages) giveUpOne()
    if (timer === undefined && !isWriting) timer = setTimeout(() => void write(), flushMs).unref()
  }

  /** What runs is bounded, but not what has ended since the store went away. */
  function giveUpOne(): void {
    for (const page of dirty) {
      if (!page.isClosed) continue
      dirty.delete(page)
      for (const { text } of page.logs.splice(0)) waitingBytes -= sizeOf(text)
      return
    }
  }

  function soon(): void {
    if (isSoon) return
    isSoon = true
    setImmediate(() => {
      isSoon = false
      void write()
    })
  }

  async function write(): Promise<void> {
    if (isWriting) return
    clearTimeout(timer)
    timer = undefined
    const pages = [...dirty].slice(0, maxPages)
    if (pages.length === 0) return
    isWriting = true
    const notes = pages.map(tear)
    try {
      await keeper.add(notes)
      for (const page of pages) page.failures = 0
    } catch (error) {
      onTrouble(error)
      for (const [index, page] of pages.entries()) putBack(page, notes[index]!)
    }
    isWriting = false
    if (dirty.size === 0) for (const wake of idlers.splice(0)) wake()
    // After trouble at the usual pace; else what came meanwhile from attempts that ended goes at once.
    else if ([...dirty].some(({ isClosed, failures }) => isClosed && failures === 0)) soon()
    else timer ??= setTimeout(() => void write(), flushMs).unref()
  }

  /** Takes off the page what there is to say. */
  function tear(page: Page): AttemptNote {
    const { taker, said, isNew, logs } = page
    const blanks = Math.min(page.dropped, maxBlanks)
    const all = blanks === 0 ? logs : [...logs, ...Array<NewLogLine>(blanks).fill(blank)]
    page.dropped -= blanks
    page.logs = []
    page.isNew = false
    if (page.dropped === 0 || page.isClosed) dirty.delete(page)
    for (const { text } of logs) waitingBytes -= sizeOf(text)
    const { jobId, token, attempt } = taker
    const progress = isNew && said !== undefined ? encodeProgress(said) : null
    return { jobId, token, attempt, progress, logs: all }
  }

  function putBack(page: Page, { progress, logs }: AttemptNote): void {
    if (page.isClosed && ++page.failures > maxFailures) return
    const kept = logs.filter((line) => line !== blank)
    page.dropped += logs.length - kept.length
    page.logs = [...kept, ...page.logs]
    for (const { text } of kept) waitingBytes += sizeOf(text)
    if (progress !== null) page.isNew = true
    dirty.add(page)
    if (dirty.size > maxWaitingPages) giveUpOne()
  }

  return {
    open: (taker) => ({
      taker,
      said: undefined,
      isNew: false,
      logs: [],
      lineCount: 0,
      lineBytes: 0,
      dropped: 0,
      isMuted: false,
      isClosed: false,
      failures: 0,
    }),

    progress(page, update) {
      if (page.isClosed) return
      page.said = mergeProgress(page.said, update)
      page.isNew = true
      touch(page)
    },

    line(page, text, level) {
      if (page.isClosed) return
      if (page.isMuted) return
      const { maxLines, maxLineBytes } = noteLimits
      if (page.lineCount > maxLines || page.lineBytes > maxLineBytes) page.dropped++
      else {
        page.isMuted = waitingBytes > maxWaitingBytes
        const line = page.isMuted ? muted : makeLogLine(text, level)
        const bytes = sizeOf(line.text)
        // The first one too many goes along as well: by it the store sees that there were more.
        page.lineCount++
        page.lineBytes += bytes
        waitingBytes += bytes
        page.logs.push(line)
      }
      touch(page)
    },

    close(page) {
      page.isClosed = true
      if (dirty.has(page)) soon()
    },

    idle(timeoutMs) {
      if (dirty.size === 0 && !isWriting) return Promise.resolve()
      soon()
      return new Promise((resolve) => {
        const late = setTimeout(resolve, timeoutMs)
        late.unref()
        idlers.push(() => {
          clearTimeout(late)
          resolve()
        })
      })
    },
  }
}

/** The last line of a page for which there was no room. */
const muted: NewLogLine = Object.freeze({
  level: 'warn',
  text: 'Further lines were dropped: the store did not keep up with the worker.',
})
/** Stands for a line that is not kept. */
const blank: NewLogLine = Object.freeze({ level: 'info', text: '' })

function sizeOf(text: string): number {
  return Buffer.byteLength(text)
}
