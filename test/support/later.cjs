// Preloaded into a server that is to believe that it is later than it is.
const now = Date.now;
const later = Number(process.env.WAYMARK_TEST_LATER_MS);
Date.now = () => now() + later;
