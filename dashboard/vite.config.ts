import { join } from 'node:path'
import react from '@vitejs/plugin-react'
import { defineConfig, type UserConfig } from 'vite'
import { bundledPackages } from '../tools/package/bundled-packages.ts'
import { bareRoutes } from './bare-routes.ts'

/**
 * Builds the dashboard into dist/dashboard. Its addresses are relative to `<base>`, which the server fills in, so it can
 * be mounted anywhere.
 */
const config: UserConfig = defineConfig({
  root: import.meta.dirname,
  base: './',
  plugins: [react(), bareRoutes(), bundledPackages()],
  build: {
    outDir: process.env.SIGNALBOX_DASHBOARD_OUT ?? join(import.meta.dirname, '..', 'dist', 'dashboard'),
    emptyOutDir: true,
    target: 'es2023',
    modulePreload: { polyfill: false },
    // The page's policy allows no `data:` for scripts and styles, and separate files are cached separately.
    assetsInlineLimit: 0,
    rolldownOptions: {
      treeshake: {
        // Drop unused exports.
        moduleSideEffects: (id) => !/\/src\/(core|http\/contract|http\/client)\//.test(id),
      },
    },
  },
})

export default config
