import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

/** The repository's folder, with a slash at its end. */
export const root: string = fileURLToPath(new URL('../../', import.meta.url))

/** A file's path from the repository's folder, and its text. */
export type Sources = ReadonlyMap<string, string>

/** The text of one file of the repository. */
export function readSource(path: string): Promise<string> {
  return readFile(root + path, 'utf8')
}

/** The product's own source: every `.ts` under src except the tests next to it. */
export async function readSources(): Promise<Sources> {
  const names = await readdir(`${root}src`, { recursive: true })
  const paths = names
    .map((name) => `src/${name.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .sort()
  return new Map(await Promise.all(paths.map(async (path) => [path, await readSource(path)] as const)))
}

/** The dashboard's own source: every `.ts` and `.tsx` that the browser gets. */
export async function readDashboard(): Promise<Sources> {
  const names = await readdir(`${root}dashboard`, { recursive: true })
  const paths = names
    .map((name) => `dashboard/${name.replaceAll('\\', '/')}`)
    .filter((path) => /\.tsx?$/.test(path) && !/\.(test|config|d)\.tsx?$/.test(path))
    // This file is part of how the rest is built, and runs in Node.
    .filter((path) => path !== 'dashboard/bare-routes.ts')
    .sort()
  return new Map(await Promise.all(paths.map(async (path) => [path, await readSource(path)] as const)))
}

/** All TypeScript that is written here, tests included. */
export async function readTypeScript(): Promise<Sources> {
  const folders = ['src', 'dashboard', 'test', 'bench', 'examples']
  const names = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(root + folder, { recursive: true })).map(
        (name) => `${folder}/${name.replaceAll('\\', '/')}`,
      ),
    ),
  )
  const paths = names.flat().filter((path) => /\.tsx?$/.test(path) && !path.includes('/node_modules/'))
  return new Map(await Promise.all(paths.map(async (path) => [path, await readSource(path)] as const)))
}
