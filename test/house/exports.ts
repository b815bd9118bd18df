/** Modules that users do not import: shared parts, the command line, and what `open` chooses from. */
const innerModules = ['core', 'access', 'audit', 'cli', 'storage', 'copy', 'demo', 'fleet', 'http']
/** Modules whose subpath is not the name of their folder. */
const subpaths: Readonly<Record<string, string>> = {
  'work-queue': 'workqueue',
  'http/server': 'server',
  'http/client': 'client',
}
/** Engines that are separate subpaths; each is a folder in src/storage. */
const engines = ['sqlite', 'postgres', 'mariadb', 'redis']

/**
 * Compares the package's `exports` with the folders, and returns the differences. `files` are the paths of the source.
 */
export function findWrongExports(
  exports: Readonly<Record<string, unknown>>,
  files: readonly string[],
): readonly string[] {
  const problems: string[] = []
  const expected = new Map<string, string>([['.', 'index']])
  const folders = new Set(files.flatMap((path) => /^src\/([^/]+)\//.exec(path)?.[1] ?? []))
  const modules = [...folders].filter((folder) => !innerModules.includes(folder) && !(folder in subpaths))
  for (const module of modules) expected.set(`./${module}`, `${module}/index`)
  for (const [folder, subpath] of Object.entries(subpaths)) {
    if (files.some((path) => path.startsWith(`src/${folder}/`)))
      expected.set(`./${subpath}`, `${folder}/index`)
  }
  for (const engine of engines) {
    if (files.includes(`src/storage/${engine}/index.ts`))
      expected.set(`./${engine}`, `storage/${engine}/index`)
  }

  for (const [subpath, file] of expected) {
    if (!files.includes(`src/${file}.ts`))
      problems.push(`src/${file}.ts is missing: every module has a public face`)
    const entry = exports[subpath]
    // Compared as text, because the order counts: the first condition that fits is taken.
    const wanted = { source: `./src/${file}.ts`, types: `./dist/${file}.d.ts`, default: `./dist/${file}.js` }
    if (entry === undefined) problems.push(`"${subpath}" is not exported, though src/${file}.ts is public`)
    else if (JSON.stringify(entry) !== JSON.stringify(wanted)) {
      problems.push(`"${subpath}" must be exactly ${JSON.stringify(wanted)}`)
    }
  }
  for (const subpath of Object.keys(exports)) {
    if (!expected.has(subpath) && subpath !== './package.json')
      problems.push(`"${subpath}" is exported, but is no module`)
  }
  return problems
}
