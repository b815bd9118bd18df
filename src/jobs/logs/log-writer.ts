import { encodeProgress, makeLogLine, mergeProgress, type ReportedProgress } from './job-logs.ts'
import { type LogStore, type LogUpdate, logLimits, type NewLogLine } from './log-store.ts'

/** An update with the token of its attempt, which a server checks. */
export interface AttemptLogUpdate extends LogUpdate {
  readonly token: string
}

/** A log store that checks the token of each update. */
export interface AttemptLogStore extends Omit<LogStore, 'add'> {
  add(updates: readonly AttemptLogUpdate[]): Promise<void>
}

/** The attempt that writes. */
export interface LogOwner {
  readonly jobId: string
  readonly token: string
  readonly attempt: number
}

/**
 * Collects the logs of one worker's handlers and writes them in batches. No handler waits for the writer, and it never
 * throws. Updates of a quarter of a second share one write; updates of an ended attempt are written at once, before its
 * end. While the store is down, the writer keeps the latest progress and the first lines, within limits, and drops the
 * rest.
 */
export interface LogWriter {
  progress(log: PendingLog, update: unknown): void
  line(log: PendingLog, text: unknown, level: unknown): void
  /** Opens the log of an attempt. The log costs nothing until its first update. */
  open(owner: LogOwner): PendingLog
  /** The attempt ended: writes its pending updates now, and ignores later updates. */
  close(log: PendingLog): void
  /** Resolves when all updates were written or dropped. */
  idle(timeoutMs: number): Promise<void>
}

/** Pending updates of an attempt. */
export interface PendingLog {
  readonly owner: LogOwner
  reported: ReportedProgress | undefined
  /** Whether `reported` has unwritten changes. */
  isNew: boolean
  logs: NewLogLine[]
  /** The lines and bytes of the attempt so far, counted as the store counts them. */
  lineCount: number
  lineBytes: number
  /** Lines beyond the limit: the store only counts them. */
  dropped: number
  /** The buffer was full: the writer drops all further lines of this log. */
  isMuted: boolean
  isClosed: boolean
  failures: number
}

const flushMs = 250
/** The writer drops a closed log after this many failed writes: about five seconds. */
const maxFailures = 20
/** The limit of all pending lines together. The writer drops further lines. */
const maxWaitingBytes = 8 * 1_048_576
/** Beyond this many pending logs, the writer drops the oldest log of an ended attempt. */
const maxPendingLogs = 5_000
/** The most logs in one write, and the most dropped lines of a log that it reports. */
const maxLogsPerWrite = 200
const maxBlanks = 1_000

export function createLogWriter(
  store: Pick<AttemptLogStore, 'add'>,
  onError: (error: unknown) => void,
): LogWriter {
  /** Logs with unwritten updates. */
  const dirty = new Set<PendingLog>()
  const idlers: (() => void)[] = []
  let waitingBytes = 0
  let isWriting = false
  let timer: NodeJS.Timeout | undefined
  let isScheduled = false

  function touch(log: PendingLog): void {
    dirty.add(log)
    if (dirty.size > maxPendingLogs) dropEndedLog()
    if (timer === undefined && !isWriting) timer = setTimeout(() => void write(), flushMs).unref()
  }

  /** While the store is down, the number of ended attempts is not bounded; the number of running attempts is. */
  function dropEndedLog(): void {
    for (const log of dirty) {
      if (!log.isClosed) continue
      dirty.delete(log)
      for (const { text } of log.logs.splice(0)) waitingBytes -= sizeOf(text)
      return
    }
  }

  function writeSoon(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      void write()
    })
  }

  async function write(): Promise<void> {
    if (isWriting) return
    clearTimeout(timer)
    timer = undefined
    const pending = [...dirty].slice(0, maxLogsPerWrite)
    if (pending.length === 0) return
    isWriting = true
    const updates = pending.map(takeUpdate)
    try {
      await store.add(updates)
      for (const log of pending) log.failures = 0
    } catch (error) {
      onError(error)
      for (const [index, log] of pending.entries()) putBack(log, updates[index]!)
    }
    isWriting = false
    if (dirty.size === 0) for (const wake of idlers.splice(0)) wake()
    // Logs of ended attempts are written at once, unless their last write failed.
    else if ([...dirty].some(({ isClosed, failures }) => isClosed && failures === 0)) writeSoon()
    else timer ??= setTimeout(() => void write(), flushMs).unref()
  }

  /** Takes the pending update of a log. */
  function takeUpdate(log: PendingLog): AttemptLogUpdate {
    const { owner, reported, isNew, logs } = log
    const blanks = Math.min(log.dropped, maxBlanks)
    const all = blanks === 0 ? logs : [...logs, ...Array<NewLogLine>(blanks).fill(blank)]
    log.dropped -= blanks
    log.logs = []
    log.isNew = false
    if (log.dropped === 0 || log.isClosed) dirty.delete(log)
    for (const { text } of logs) waitingBytes -= sizeOf(text)
    const { jobId, token, attempt } = owner
    const progress = isNew && reported !== undefined ? encodeProgress(reported) : null
    return { jobId, token, attempt, progress, logs: all }
  }

  function putBack(log: PendingLog, { progress, logs }: AttemptLogUpdate): void {
    if (log.isClosed && ++log.failures > maxFailures) return
    const kept = logs.filter((line) => line !== blank)
    log.dropped += logs.length - kept.length
    log.logs = [...kept, ...log.logs]
    for (const { text } of kept) waitingBytes += sizeOf(text)
    if (progress !== null) log.isNew = true
    dirty.add(log)
    if (dirty.size > maxPendingLogs) dropEndedLog()
  }

  return {
    open: (owner) => ({
      owner,
      reported: undefined,
      isNew: false,
      logs: [],
      lineCount: 0,
      lineBytes: 0,
      dropped: 0,
      isMuted: false,
      isClosed: false,
      failures: 0,
    }),

    progress(log, update) {
      if (log.isClosed) return
      log.reported = mergeProgress(log.reported, update)
      log.isNew = true
      touch(log)
    },

    line(log, text, level) {
      if (log.isClosed) return
      if (log.isMuted) return
      const { maxLines, maxLineBytes } = logLimits
      if (log.lineCount > maxLines || log.lineBytes > maxLineBytes) log.dropped++
      else {
        log.isMuted = waitingBytes > maxWaitingBytes
        const line = log.isMuted ? muted : makeLogLine(text, level)
        const bytes = sizeOf(line.text)
        // The first line beyond the limit is also sent: it shows the store that there were more.
        log.lineCount++
        log.lineBytes += bytes
        waitingBytes += bytes
        log.logs.push(line)
      }
      touch(log)
    },

    close(log) {
      log.isClosed = true
      if (dirty.has(log)) writeSoon()
    },

    idle(timeoutMs) {
      if (dirty.size === 0 && !isWriting) return Promise.resolve()
      writeSoon()
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

/** The last line of a log when the buffer is full. */
const muted: NewLogLine = Object.freeze({
  level: 'warn',
  text: 'Further lines were dropped: the store did not keep up with the worker.',
})
/** Stands for a dropped line. */
const blank: NewLogLine = Object.freeze({ level: 'info', text: '' })

function sizeOf(text: string): number {
  return Buffer.byteLength(text)
}
