import { readFileSync, type Stats, statSync } from 'node:fs'
import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'

/** A file that a setting names. */
export interface NamedFile {
  /** Where its path came from: a flag, a variable or a key of the configuration file. */
  readonly name: string
  readonly path: string
  /** What it is meant to hold, for people. */
  readonly holds: string
  readonly maxBytes: number
}

/** Says what is wrong with a file that a setting names. Nothing of its content is ever in a message. */
export function refuseFile(
  { name, path }: Pick<NamedFile, 'name' | 'path'>,
  why: string,
  cause?: unknown,
): SignalboxError {
  return new SignalboxError('invalid_argument', `${name} names ${show(path)}, ${why}`, {
    cause,
    details: { option: name },
  })
}

/** The text of a file that every user may read. */
export function readNamedFile(file: NamedFile): string {
  statFile(file)
  return read(file)
}

/** The text of a file that holds secrets. A file that other users can read is refused. */
export function readPrivateFile(file: NamedFile): string {
  const stats = statFile(file)
  if ((stats.mode & readableByOthers(stats)) !== 0)
    throw refuseFile(
      file,
      `which other users may read or write (mode ${(stats.mode & 0o777).toString(8)}). Run: chmod 600 ${show(file.path)}`,
    )
  return read(file)
}

function statFile(file: NamedFile): Stats {
  let stats: Stats
  try {
    stats = statSync(file.path)
  } catch (error) {
    throw unreadable(file, error)
  }
  if (!stats.isFile()) throw refuseFile(file, 'which is not a file.')
  if (stats.size > file.maxBytes)
    throw refuseFile(file, `which is larger than ${file.maxBytes} bytes, so it cannot be a ${file.holds}.`)
  return stats
}

function read(file: NamedFile): string {
  try {
    return readFileSync(file.path, 'utf8')
  } catch (error) {
    throw unreadable(file, error)
  }
}

function unreadable(file: NamedFile, error: unknown): SignalboxError {
  return refuseFile(file, `which cannot be read (${(error as NodeJS.ErrnoException).code}).`, error)
}

/** A server that is not root can read a file of root by its group only, as with mounted secrets. Else only the owner may read it. */
function readableByOthers({ uid }: Stats): number {
  return uid === 0 && process.getuid?.() !== 0 ? 0o037 : 0o077
}
