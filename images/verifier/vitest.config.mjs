// The grader's own configuration: the ones in the checkout belong to the candidate.
export default {
  root: "/work",
  cacheDir: "/tmp/vite",
  test: {
    include: ["**/*.{test,spec}.?(c|m)[jt]s?(x)", "**/test.?(c|m)[jt]s"],
    exclude: ["**/node_modules/**"],
    watch: false,
    cache: false,
  },
};
