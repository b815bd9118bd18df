import type { Plugin } from 'vite'

/** The file that a build of the dashboard leaves beside its page: the packages whose code is in it. */
export const bundledPackagesFile = 'packages.json'

/** A plugin of Vite. It writes down from which packages the bundle took code, for the bill of materials. */
export function bundledPackages(): Plugin {
  return {
    name: 'signalbox-bundled-packages',
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((output) =>
        output.type === 'chunk' ? output.moduleIds : [],
      )
      const names = new Set(modules.flatMap((id) => packageOf(id) ?? []))
      this.emitFile({
        type: 'asset',
        fileName: bundledPackagesFile,
        source: JSON.stringify([...names].sort()),
      })
    },
  }
}

/** The package of a module's path: what stands after the last `node_modules`. */
function packageOf(id: string): string | undefined {
  return /.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/.exec(id)?.[1]?.replace('\\', '/')
}
