/** All stores that are written once. SQLite's writer thread finds their operations here, and so do the tests. */
import './audit.ts'
import './logs.ts'
import './guard-claims.ts'
import './guard-windows.ts'
import './guards.ts'
import './request-keys.ts'
import './tokens.ts'
