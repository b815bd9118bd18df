import { accessSync, constants, readdirSync, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Finds an executable in the first of the folders that has it. */
export function findBinary(name: string, folders: readonly string[]): string | undefined {
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

/** Finds the first folder that has all of these; binaries that belong together must be of one version. */
export function findTogether(names: readonly string[], folders: readonly string[]): string | undefined {
  return folders.find((folder) => names.every((name) => isExecutable(join(folder, name))))
}

/** The folders of PATH, and those where Debian puts servers but not every PATH looks. */
export function binaryFolders(env: NodeJS.ProcessEnv): readonly string[] {
  const path = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  return [...path, '/usr/local/sbin', '/usr/sbin', '/usr/bin', ...debianPostgresFolders()]
}

/** Debian keeps Postgres off PATH, one folder a version; the newest comes first. */
function debianPostgresFolders(): readonly string[] {
  const root = '/usr/lib/postgresql'
  try {
    const versions = readdirSync(root).sort((a, b) => Number(b) - Number(a))
    return versions.map((version) => join(root, version, 'bin'))
  } catch {
    return []
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
